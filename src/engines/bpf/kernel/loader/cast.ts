// SPDX-License-Identifier: Apache-2.0
// A call of a function of the kernel, in place of one of a helper that there is not: bpf/packet/plain/summed.h. libbpf could
// find the function, too, and reads all of the kernel's BTF for that, 11 MiB at a moment when the agent has the most memory in use.
import type { Rodata } from '../../layer.ts';

/** The instruction that CAST_CALL makes: opcode, no registers, no offset, and the number. */
const CALL = Buffer.from([0x85, 0, 0, 0, 0x00, 0x57, 0xca, 0x7f]);
/** BPF_PSEUDO_KFUNC_CALL, as the source register. */
const OF_KERNEL = 0x20;
const REGISTERS_AT = 1;
const NUMBER_AT = 4;

/** The object for these settings: they may name no function. */
export function withCast(object: Uint8Array, { cast_function: name }: Rodata): Uint8Array {
  const id = name === undefined ? 0 : Buffer.from(name).readUInt32LE();
  if (id === 0) return object;
  const bytes = Buffer.from(object);
  for (let at = bytes.indexOf(CALL); at >= 0; at = bytes.indexOf(CALL, at + CALL.length)) {
    bytes[at + REGISTERS_AT] = OF_KERNEL;
    bytes.writeUInt32LE(id, at + NUMBER_AT);
  }
  return bytes;
}
