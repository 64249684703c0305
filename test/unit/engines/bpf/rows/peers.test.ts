// SPDX-License-Identifier: Apache-2.0
// fl_peer has the other nodes as the plan has them, and what programs have learnt of them stays.
import { beforeEach, expect, test } from 'vitest';
import {
  decodeNodeAddress,
  decodePeer,
  encodeNodeAddress,
  encodePeer,
} from '../../../../../src/engines/bpf/direct-return/direct-layout.ts';
import { createPeers } from '../../../../../src/engines/bpf/direct-return/peers.ts';
import type { RowTable } from '../../../../../src/engines/bpf/layout/rows.ts';
import type { Peer } from '../../../../../src/plan/types.ts';

let held: Map<string, number>;
let writes: string[];
let room: number;
let isBroken: boolean;
const warned: object[] = [];
const log = { warn: (fields: object) => warned.push(fields) };
const nameOf = (key: Uint8Array): string => decodeNodeAddress(key) ?? '';
const keyOf = encodeNodeAddress;
const map: RowTable = {
  name: 'fl_peer',
  readAll: () =>
    [...held].map(([name, port]) => ({ key: keyOf(name), value: encodePeer({ port }) })),
  put: (keys, values) =>
    keys.flatMap((key, index) => {
      if (held.size >= room) return [{ index, code: 'E2BIG' }];
      held.set(nameOf(key), decodePeer(values[index]!).port);
      writes.push(`+${nameOf(key)}`);
      return [];
    }),
  delete: (keys) => {
    if (isBroken) throw new Error('EIO');
    for (const key of keys) {
      writes.push(`-${nameOf(key)}`);
      held.delete(nameOf(key));
    }
    return [];
  },
};

const nodes = (peers: Readonly<Record<string, Peer>>) => ({
  peers: new Map(Object.entries(peers)),
});
const N2: Peer = { addresses: ['192.0.2.12', '2001:db8::12'], directReturnPort: 6081 };
const N3: Peer = { addresses: ['192.0.2.13'], directReturnPort: undefined };

beforeEach(() => {
  held = new Map();
  writes = [];
  warned.length = 0;
  room = 100;
  isBroken = false;
});

test('every node is there under all its addresses, with its port if it takes requests', () => {
  createPeers(map, log).follow(nodes({ n2: N2, n3: N3 }));
  expect(Object.fromEntries(held)).toEqual({
    '192.0.2.12': 6081,
    '2001:db8::12': 6081,
    '192.0.2.13': 0,
  });
});

test('only what changes is written', () => {
  const { follow } = createPeers(map, log);
  follow(nodes({ n2: N2, n3: N3 }));
  writes = [];
  follow(nodes({ n2: N2, n3: { ...N3, directReturnPort: 7081 } }));
  expect(writes).toEqual(['+192.0.2.13']);
  follow(nodes({ n3: { ...N3, directReturnPort: 7081 } }));
  expect(writes).toEqual(['+192.0.2.13', '-192.0.2.12', '-2001:db8::12']);
});

test('the first time with those of an earlier agent, which stay until all nodes are known', () => {
  held = new Map([
    ['192.0.2.12', 6081],
    ['192.0.2.14', 6081],
  ]);
  const { follow } = createPeers(map, log);
  follow({});
  expect(writes).toEqual([]);
  follow(nodes({ n2: { ...N2, addresses: ['192.0.2.12'] } }));
  expect(writes).toEqual(['-192.0.2.14']);
});

test('two nodes with one address: the first by name has it', () => {
  createPeers(map, log).follow(
    nodes({ n2: N2, n9: { addresses: ['192.0.2.12'], directReturnPort: 1 } }),
  );
  expect(held.get('192.0.2.12')).toBe(6081);
});

test('an audit tells and repairs what somebody else has written, and nothing before all nodes are known', () => {
  const { follow, audit } = createPeers(map, log);
  const all = nodes({ n2: N2, n3: N3 });
  held.set('192.0.2.14', 6081);
  follow({});
  expect(audit({})).toEqual([]);
  expect(audit(all)).toEqual([]);
  expect(writes).toEqual([]);
  follow(all);
  const wanted = new Map(held);
  expect(audit(all)).toEqual([]);
  held.delete('192.0.2.12');
  held.set('192.0.2.13', 6081);
  held.set('192.0.2.14', 0);
  expect(audit(all).map(({ text }) => text)).toEqual([
    'peer 192.0.2.12 is missing',
    'peer 192.0.2.13 differs',
    'peer 192.0.2.14 is no address of a Node',
  ]);
  expect(new Map([...held].sort())).toEqual(new Map([...wanted].sort()));
  expect(audit(all)).toEqual([]);
});

test('a write that throws is done again by the next sync of the same nodes', () => {
  const { follow } = createPeers(map, log);
  held.set('192.0.2.14', 6081);
  isBroken = true;
  const all = nodes({ n2: N2 });
  expect(() => follow(all)).toThrow('EIO');
  isBroken = false;
  follow(all);
  expect([...held.keys()]).toEqual(N2.addresses);
});

test('a node for which there is no room is named once and retried, and no audit calls it repaired', () => {
  room = 2;
  const { follow, audit } = createPeers(map, log);
  const all = nodes({ n2: N2, n3: N3 });
  follow(all);
  expect(audit(all)).toEqual([]);
  expect(warned).toEqual([{ address: '192.0.2.13', map: 'fl_peer', code: 'E2BIG' }]);
  room = 9;
  expect(audit(all)).toEqual([]);
  expect(held.get('192.0.2.13')).toBe(0);
  held.delete('192.0.2.13');
  expect(audit(all)).toMatchObject([{ text: 'peer 192.0.2.13 is missing' }]);
  held.delete('192.0.2.13');
  room = 2;
  expect(audit(all)).toEqual([]);
});

test('a node that goes after its new port was refused leaves nothing', () => {
  const { follow } = createPeers(map, log);
  follow(nodes({ n2: N2, n3: N3 }));
  room = 0;
  follow(nodes({ n2: N2, n3: { ...N3, directReturnPort: 6081 } }));
  expect(held.get('192.0.2.13')).toBe(0);
  follow(nodes({ n2: N2 }));
  expect([...held.keys()]).toEqual(N2.addresses);
});
