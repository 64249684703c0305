// SPDX-License-Identifier: Apache-2.0
// The sockets whose datagrams the packet programs send elsewhere, or refuse, follow each pass.
import { beforeEach, expect, test } from 'vitest';
import { REFUSED_SOCKETS_OFFSET } from '../../../../../src/dataplane/bpf/maps/layout.ts';
import {
  DATAGRAMS,
  namedSockets,
} from '../../../../../src/dataplane/bpf/packet/refused-sockets.ts';
import type { BpfMap } from '../../../../../src/sys/native.ts';

let held: Map<bigint, number>;
const memory = new DataView(new ArrayBuffer(16));
const cookiesOf = (keys: Uint8Array): readonly bigint[] => [
  ...new BigUint64Array(keys.slice().buffer),
];
const map = {
  readAll: () => {
    const cookies = BigUint64Array.from(held.keys());
    // As the addon's: there may be room behind the entries.
    const keys = new Uint8Array(cookies.byteLength + 8);
    keys.set(new Uint8Array(cookies.buffer));
    return { keys, values: new Uint8Array(), count: cookies.length };
  },
  putBatch: (keys: Uint8Array, values: Uint8Array) => {
    expect(values.length).toBe(keys.length / 2);
    const each = new Uint32Array(values.slice().buffer);
    for (const [index, cookie] of cookiesOf(keys).entries()) held.set(cookie, each[index]!);
    return { done: 0 };
  },
  deleteBatch: (keys: Uint8Array) => {
    for (const cookie of cookiesOf(keys)) held.delete(cookie);
  },
} as unknown as BpfMap;
const { served, refused } = DATAGRAMS;
const count = (): number => memory.getUint32(REFUSED_SOCKETS_OFFSET, true);

beforeEach(() => {
  held = new Map([[7n, 0]]); // an earlier agent's
});

test('what is not wanted any more goes, the rest stays; the count follows', () => {
  const name = namedSockets(map, { view: () => memory, offset: () => 0 });
  name({ served: [1n], refused: [2n] });
  expect([[...held], count()]).toEqual([
    [
      [1n, served],
      [2n, refused],
    ],
    2,
  ]);
  name({ served: [2n], refused: [3n] });
  expect([[...held], count()]).toEqual([
    [
      [2n, served],
      [3n, refused],
    ],
    2,
  ]);
  name({ served: [], refused: [] });
  expect([[...held], count()]).toEqual([[], 0]);
});

test('a map that is full: the pass fails, and says so', () => {
  const full = { ...map, putBatch: () => ({ error: new Error('E2BIG') }) } as unknown as BpfMap;
  const name = namedSockets(full, { view: () => memory, offset: () => 0 });
  expect(() => name({ served: [], refused: [1n] })).toThrow('E2BIG');
});
