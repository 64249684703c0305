// SPDX-License-Identifier: Apache-2.0
// Kernels with and without MPTCP, and those whose BTF tells too little: there libbpf looks for itself.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { kernelStructs } from '../../../../src/sys/btf/structs.ts';
import { type WrittenType, writeBtf } from '../../../../src/sys/btf/write.ts';
import { offsetIn } from './offset.ts';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'fairlead-btf-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

const first = (name: string, member: string, struct?: string): WrittenType => ({
  ...{ kind: 'struct', name },
  members: [{ name: member, offsetBits: 0, ...(struct && { struct }) }],
});
const ALL: readonly WrittenType[] = [
  { kind: 'struct', name: 'sk_buff', members: [{ name: 'ip_summed', offsetBits: 1029 }] },
  { kind: 'struct', name: 'sock_common', members: [{ name: 'skc_state', offsetBits: 144 }] },
  {
    ...{ kind: 'struct', name: 'sock' },
    members: [
      { name: '__sk_common', struct: 'sock_common', offsetBits: 0 },
      { name: 'sk_kern_sock', offsetBits: 4225, widthBits: 1 },
    ],
  },
  first('inet_sock', 'sk', 'sock'),
  first('inet_connection_sock', 'icsk_inet', 'inet_sock'),
  first('mptcp_sock', 'sk', 'inet_connection_sock'),
  { kind: 'enum', name: 'bpf_func_id', enumerators: ['BPF_FUNC_skc_to_mptcp_sock'] },
];

function structsOf(types: readonly WrittenType[]): ReturnType<typeof kernelStructs> {
  const path = join(folder, 'btf');
  writeFileSync(path, writeBtf(types));
  return kernelStructs(path);
}
const without = (name: string): readonly WrittenType[] => ALL.filter((one) => one.name !== name);

/** `struct.member` of the table for sockets. */
const offsetOf = (table: Uint8Array | undefined, struct: string, member: string) =>
  offsetIn(table ?? new Uint8Array(), { struct, member });
const text = (bytes: Uint8Array | undefined): string => Buffer.from(bytes ?? []).toString('latin1');

test('members are where the kernel has them', () => {
  const { ipSummedAt, ofSockets } = structsOf(ALL);
  expect(ipSummedAt).toBe(1029);
  expect(offsetOf(ofSockets, 'sock_common', 'skc_state')).toBe(144);
  expect(offsetOf(ofSockets, 'sock', 'sk_kern_sock')).toBe(4225);
  expect(offsetOf(ofSockets, 'mptcp_sock', 'sk')).toBe(0);
  expect(text(ofSockets)).toContain('BPF_FUNC_skc_to_mptcp_sock');
  expect(text(ofSockets)).not.toContain('sk_buff');
});

test('without MPTCP there is no struct for it, and before 5.19 no helper', () => {
  const { ofSockets } = structsOf(without('mptcp_sock'));
  expect(offsetOf(ofSockets, 'mptcp_sock', 'sk')).toBeUndefined();
  expect(offsetOf(ofSockets, 'sock', 'sk_kern_sock')).toBe(4225);
  const older = structsOf(without('bpf_func_id')).ofSockets;
  expect(older).toBeDefined();
  expect(text(older)).not.toContain('BPF_FUNC_skc_to_mptcp_sock');
});

test.each(['sock_common', 'sock', 'inet_sock', 'inet_connection_sock'])('%s is missing', (name) => {
  expect(structsOf(without(name))).toEqual({
    ...{ ipSummedAt: 1029, castFunction: 0, ofSockets: undefined },
  });
});

test('a bit field that is missing, and no BTF at all', () => {
  const sock = first('sock', '__sk_common', 'sock_common');
  expect(structsOf([...without('sock'), sock]).ofSockets).toBeUndefined();
  expect(structsOf(without('sk_buff')).ipSummedAt).toBe(0);
  const nothing = { ipSummedAt: 0, castFunction: 0, ofSockets: undefined };
  expect(kernelStructs(join(folder, 'none'))).toEqual(nothing);
});
