// SPDX-License-Identifier: Apache-2.0
// The sockets that the packet programs refuse follow each pass.
import { beforeEach, expect, test } from 'vitest';
import { REFUSED_SOCKETS_OFFSET } from '../../../../../src/dataplane/bpf/maps/layout.ts';
import { refusedSockets } from '../../../../../src/dataplane/bpf/packet/refused-sockets.ts';
import type { BpfMap } from '../../../../../src/sys/native.ts';

let held: Set<bigint>;
const memory = new DataView(new ArrayBuffer(16));
const cookiesOf = (keys: Uint8Array): readonly bigint[] => [
  ...new BigUint64Array(keys.slice().buffer),
];
const map = {
  readAll: () => {
    const cookies = BigUint64Array.from(held);
    // As the addon's: there may be room behind the entries.
    const keys = new Uint8Array(cookies.byteLength + 8);
    keys.set(new Uint8Array(cookies.buffer));
    return { keys, values: new Uint8Array(), count: cookies.length };
  },
  putBatch: (keys: Uint8Array, values: Uint8Array) => {
    expect(values.length).toBe(keys.length / 2);
    for (const cookie of cookiesOf(keys)) held.add(cookie);
    return { done: 0 };
  },
  deleteBatch: (keys: Uint8Array) => {
    for (const cookie of cookiesOf(keys)) held.delete(cookie);
  },
} as unknown as BpfMap;
const count = (): number => memory.getUint32(REFUSED_SOCKETS_OFFSET, true);

beforeEach(() => {
  held = new Set([7n]); // an earlier agent's
});

test('what is not wanted any more goes, the rest stays; the count follows', () => {
  const refuse = refusedSockets(map, { view: () => memory, offset: () => 0 });
  refuse([1n, 2n]);
  expect([[...held], count()]).toEqual([[1n, 2n], 2]);
  refuse([2n, 3n]);
  expect([[...held], count()]).toEqual([[2n, 3n], 2]);
  refuse([]);
  expect([[...held], count()]).toEqual([[], 0]);
});

test('a map that is full: the pass fails, and says so', () => {
  const full = { ...map, putBatch: () => ({ error: new Error('E2BIG') }) } as unknown as BpfMap;
  const refuse = refusedSockets(full, { view: () => memory, offset: () => 0 });
  expect(() => refuse([1n])).toThrow('E2BIG');
});
