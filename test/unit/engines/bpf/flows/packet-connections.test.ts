// SPDX-License-Identifier: Apache-2.0
// Records of the table as connections: which of them, in which order, and what is said of one that is read again.
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { createDirectory } from '../../../../../src/engines/bpf/flows/directory.ts';
import { packetConnections } from '../../../../../src/engines/bpf/flows/packet-connections.ts';
import { TICK_SHIFT } from '../../../../../src/engines/bpf/layout/conn-layout.ts';
import type { Connection } from '../../../../../src/engines/connections.ts';
import type { Family } from '../../../../../src/model/types.ts';
import type { ConnFacts } from '../../../../support/dataplane/conn-bytes.ts';
import {
  type ConnNode,
  createConnNode,
  WEB,
  WEB6,
} from '../../../../support/dataplane/conn-node.ts';

const BACKEND = '10.1.1.5:8080';
const BACKEND6 = '[fd00:10::5]:8080';

let node: ConnNode;
beforeEach(() => {
  node = createConnNode();
});

const flow = (client: string, facts: Partial<ConnFacts> = {}): ConnFacts => {
  const isIpv6 = client.startsWith('[');
  const backend = isIpv6 ? BACKEND6 : BACKEND;
  const frontend = isIpv6 ? WEB6 : WEB;
  return { client, frontend, backend, ids: node.idsOf(backend), ...facts };
};

const listed = (family: Family = 'IPv4'): readonly Connection[] => [
  ...packetConnections({
    table: node.conns.tables[family],
    directory: createDirectory(node.tables),
  }),
];

const NOW = 50_000_000;
/** The programs' clock, in seconds. */
function at(seconds: number): void {
  const clock = vi.spyOn(process.hrtime, 'bigint');
  clock.mockReturnValue(BigInt(seconds) * 1_000_000_000n);
  onTestFinished(() => clock.mockRestore());
}

test('a key is of one connection: the family, the record, and when it began', () => {
  node.conns.put(flow('203.0.113.9:1', { bornSeconds: 100 }));
  node.conns.put(flow('203.0.113.9:2', { bornSeconds: 100 }));
  node.conns.put(flow('[2001:db8::9]:1', { bornSeconds: 100 }));
  const keys = () => [...listed(), ...listed('IPv6')].map(({ key }) => key);
  const before = keys();
  expect(before).toEqual(['IPv4-0-1748', 'IPv4-1-1748', 'IPv6-0-1748']);
  node.conns.put(flow('203.0.113.9:2', { bornSeconds: 200 }));
  expect(keys()).toEqual([before[0], 'IPv4-1-2e90', before[2]]);
});

test('by frontend, then by client, as numbers', () => {
  const other = '192.0.2.9:81';
  node.conns.put(flow('203.0.113.10:9'));
  node.conns.put(flow('203.0.113.9:300'));
  node.conns.put(flow('203.0.113.9:20', { frontend: '192.0.2.10:443' }));
  node.conns.put(flow('203.0.113.9:20'));
  node.conns.put(flow('203.0.113.200:1', { frontend: other }));
  const sorted = listed().toSorted((one, two) => (one.order < two.order ? -1 : 1));
  expect(sorted.map(({ frontend, client }) => `${client} ${frontend}`)).toEqual([
    `203.0.113.200:1 ${other}`,
    `203.0.113.9:20 ${WEB}`,
    `203.0.113.9:300 ${WEB}`,
    `203.0.113.10:9 ${WEB}`,
    '203.0.113.9:20 192.0.2.10:443',
  ]);
});

test('one that has expired is none', () => {
  at(NOW);
  node.conns.put(flow('203.0.113.9:1', { seenSeconds: NOW }));
  node.conns.put(flow('203.0.113.9:2', { seenSeconds: NOW - 18_000_000 }));
  // 2^30 ticks of silence are 18,014,398 seconds. Programs may be ahead of this clock.
  node.conns.put(flow('203.0.113.9:3', { seenSeconds: NOW - 18_100_000 }));
  node.conns.put(flow('203.0.113.9:4', { seenSeconds: NOW + 1 }));
  expect(listed().map(({ client }) => client)).toEqual([
    '203.0.113.9:1',
    '203.0.113.9:2',
    '203.0.113.9:4',
  ]);
});

test('read again it is as it is now, as long as it is the same connection', () => {
  node.conns.put(flow('203.0.113.9:1', { bornSeconds: 100, state: 'new', isHalfOpen: true }));
  const [connection] = listed();
  node.conns.put(flow('203.0.113.9:1', { bornSeconds: 100, toBackend: [7, 700] }));
  expect(connection?.read()).toMatchObject({
    ...{ state: 'established', toBackend: { packets: 7, bytes: 700 } },
  });
  // Begun in the same tick, with another backend.
  node.conns.put(flow('203.0.113.9:1', { bornSeconds: 100, backend: '10.1.2.5:8080' }));
  expect(connection?.read()).toBeUndefined();
});

test('nor is another one it whose proof is the same by chance', () => {
  const { conn, proof } = node.conns.tables.IPv4;
  node.conns.put(flow('203.0.113.9:1', { bornSeconds: 100 }));
  const [connection] = listed();
  const words = new Uint32Array(conn.map(0, 64).slice(0, 64));
  const wanted = proof(words);
  let other = 100;
  do {
    other += 1;
    words[5] = Number((BigInt(other) * 1_000_000_000n) >> TICK_SHIFT);
  } while (proof(words) !== wanted);
  node.conns.put(flow('203.0.113.9:1', { bornSeconds: other }));
  expect(new Uint32Array(conn.map(0, 64))[1]! >>> 16, `begun at ${other}`).toBe(wanted);
  expect(connection?.read()).toBeUndefined();
});

test('a backend’s id that was given to another: what has it is stale, and dropped alone', () => {
  const ids = node.idsOf(BACKEND);
  node.conns.put(flow('203.0.113.9:1'));
  node.conns.put(flow('203.0.113.9:2', { ids: { ...ids, generation: ids.generation + 1 } }));
  const [first, second] = listed();
  expect([first?.backendState, second?.backendState]).toEqual(['active', 'gone']);
  expect([first?.dropStale(), second?.dropStale()]).toEqual([false, true]);
  expect(listed().map(({ client }) => client)).toEqual(['203.0.113.9:1']);
});
