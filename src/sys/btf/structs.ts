// SPDX-License-Identifier: Apache-2.0
// What programs read of the running kernel's structs, found in one pass over its BTF. libbpf could find it, too, and takes
// 11 MiB for that, at a moment when the agent has the most memory in use.
import { readKernelBtf } from './kernel.ts';
import { lookUp, type Member } from './member.ts';
import type { ReadAt } from './read.ts';
import { type WrittenType, writeBtf } from './write.ts';

export interface KernelStructs {
  /** That of bpf/packet/plain/summed.h, in bits. 0: the kernel's BTF does not tell. */
  readonly ipSummedAt: number;
  /** Id of the function by which programs read members (Linux 6.2), as bpf/packet/plain/summed.h calls it. 0: there is none. */
  readonly castFunction: number;
  /** BTF of those of bpf/socket/kernel.h; undefined: libbpf looks for itself. */
  readonly ofSockets: Uint8Array | undefined;
}

/** As in bpf/socket/kernel.h. The first member of all but the first is a struct before. */
const SOCKET_STRUCTS = [
  ['sock_common', 'skc_state'],
  ['sock', '__sk_common', 'sock_common'],
  ['inet_sock', 'sk', 'sock'],
  ['inet_connection_sock', 'icsk_inet', 'inet_sock'],
  ['mptcp_sock', 'sk', 'inet_connection_sock'],
] as const;
const KERNEL_SOCKET: Member = { struct: 'sock', member: 'sk_kern_sock' };
const MPTCP = 'mptcp_sock';
const MPTCP_HELPER = 'BPF_FUNC_skc_to_mptcp_sock';
const CAST = 'bpf_cast_to_kern_ctx';
const IP_SUMMED: Member = { struct: 'sk_buff', member: 'ip_summed' };

export function kernelStructs(path?: string): KernelStructs {
  return readKernelBtf(structsIn, path) ?? { ipSummedAt: 0, castFunction: 0, ofSockets: undefined };
}

function structsIn(read: ReadAt): KernelStructs {
  const wanted = SOCKET_STRUCTS.map(([struct, member]): Member => ({ struct, member }));
  const {
    offsets,
    names: helpers,
    functions: [castFunction],
  } = lookUp(read, {
    members: [IP_SUMMED, KERNEL_SOCKET, ...wanted],
    names: [MPTCP_HELPER],
    functions: [CAST],
  });
  const [summed, kernelSocket, ...found] = offsets;
  const types = SOCKET_STRUCTS.flatMap(([name, member, struct], index): WrittenType[] => {
    const offsetBits = found[index];
    if (offsetBits === undefined) return [];
    const first = { name: member, offsetBits, ...(struct && { struct }) };
    if (name !== KERNEL_SOCKET.struct) return [{ kind: 'struct', name, members: [first] }];
    if (kernelSocket === undefined) return [];
    const second = { name: KERNEL_SOCKET.member, offsetBits: kernelSocket, widthBits: 1 };
    return [{ kind: 'struct', name, members: [first, second] }];
  });
  const names = types.map(({ name }) => name);
  // A kernel without MPTCP is the only one that lacks any.
  const isWhole = SOCKET_STRUCTS.every(([name]) => name === MPTCP || names.includes(name));
  return {
    ipSummedAt: summed ?? 0,
    castFunction: castFunction ?? 0,
    ofSockets: isWhole
      ? writeBtf([...types, { kind: 'enum', name: 'bpf_func_id', enumerators: helpers }])
      : undefined,
  };
}
