// SPDX-License-Identifier: Apache-2.0
// Packets and bytes of each frontend: ended and established flows, which frontend they belong to, and never less.
import { beforeEach, describe, expect, test } from 'vitest';
import {
  neverLess,
  readTotals,
  type Totals,
} from '../../../../../src/engines/bpf/flows/traffic/totals.ts';
import { createTotalsReader } from '../../../../../src/engines/bpf/kernel/flows/traffic/reader.ts';
import { encodeFrontendKey, encodeU32 } from '../../../../../src/engines/bpf/layout/layout.ts';
import { type ConnFacts, UDP } from '../../../../support/dataplane/conn-bytes.ts';
import {
  type ConnNode,
  createConnNode,
  DNS,
  WEB,
  WEB6,
} from '../../../../support/dataplane/conn-node.ts';
import { until } from '../../../../support/until.ts';

let node: ConnNode;
beforeEach(() => {
  node = createConnNode();
});

const tablesOf = ({ conns, traffic, tables }: ConnNode) => ({
  ...{ conns: () => conns.tables, traffic },
  frontend: tables.frontend,
});

function totals(): Totals {
  const reading = readTotals(tablesOf(node));
  for (;;) {
    const { done, value } = reading.next();
    if (done === true) return value;
  }
}

const idOf = (address: string, port: number, protocol: 'TCP' | 'UDP' = 'TCP'): number => {
  const family = address.includes(':') ? 'IPv6' : 'IPv4';
  const key = encodeFrontendKey({ family, address, port, protocol });
  return node.tables.frontend[family].get(key)?.[0] ?? -1;
};
const web = () => idOf('192.0.2.10', 80);

const flow = (client: string, facts: Partial<ConnFacts> = {}): ConnFacts => ({
  ...{ client, frontend: WEB, backend: '10.1.1.5:8080' },
  ...{ toBackend: [3, 300], toClient: [2, 2000] },
  ...facts,
});
const ONE = { toBackend: { packets: 3, bytes: 300 }, toClient: { packets: 2, bytes: 2000 } };

test('connections count, half-open ones, too', () => {
  node.conns.put(flow('203.0.113.9:1'));
  expect(totals().get(web())).toMatchObject(ONE);
  node.conns.put(flow('203.0.113.9:2', { isHalfOpen: true }));
  expect(totals().get(web())).toMatchObject({
    toBackend: { packets: 6, bytes: 600 },
    toClient: { packets: 4, bytes: 4000 },
  });
});

test('what has ended stays', () => {
  const { traffic } = node;
  new BigUint64Array(traffic.bytes.buffer, traffic.offset(web()), 4).set([6n, 600n, 4n, 4000n]);
  expect(totals().get(web())?.toClient).toEqual({ packets: 4, bytes: 4000 });
  node.conns.put(flow('203.0.113.9:1'));
  expect(totals().get(web())?.toClient).toEqual({ packets: 6, bytes: 6000 });
});

test('each flow belongs to its own frontend: family, protocol, and other ports of an address', () => {
  const udp = { protocol: UDP, frontend: DNS, backend: '10.1.1.53:53' };
  node.conns.put(flow('203.0.113.9:1', udp));
  node.conns.put(flow('203.0.113.9:2', { ...udp, protocol: 6 }));
  node.conns.put(flow('[2001:db8::9]:3', { frontend: WEB6, backend: '[fd00:10::5]:8080' }));
  const found = totals();
  expect(found.get(idOf('192.0.2.53', 53, 'UDP'))).toMatchObject(ONE);
  expect(found.get(idOf('2001:db8:96::a', 80))).toMatchObject(ONE);
  expect(found.get(web())?.toBackend.packets).toBe(0);
});

test.each(['IPv4', 'IPv6'] as const)(
  'a NodePort counts on every address of the node: %s',
  (family) => {
    const key = encodeFrontendKey({ family, address: undefined, port: 30_080, protocol: 'TCP' });
    node.tables.frontend[family].put([key], [encodeU32(60)]);
    const [client, address, backend] =
      family === 'IPv4'
        ? ['203.0.113.9', '192.0.2.11', '10.1.1.5:8080']
        : ['[2001:db8::9]', '[2001:db8::11]', '[fd00:10::5]:8080'];
    node.conns.put(flow(`${client}:1`, { frontend: `${address}:30080`, backend }));
    node.conns.put(flow(`${client}:2`, { frontend: `${address}:30081`, backend }));
    expect(totals().get(60)).toMatchObject(ONE);
  },
);

describe('never less', () => {
  const reading = (packets: number, key = 1): Totals =>
    new Map([[7, { key, toBackend: { packets, bytes: 0 }, toClient: { packets: 0, bytes: 0 } }]]);
  const packets = (of: Totals): number | undefined => of.get(7)?.toBackend.packets;

  test.each<[string, Totals | undefined, Totals, number | undefined]>([
    ['the first reading', undefined, reading(5), 5],
    ['more', reading(5), reading(6), 6],
    ['a flow that ended while it was read', reading(5), reading(3), 5],
    ['another frontend has the id now', reading(5), reading(1, 2), 1],
    ['the frontend is gone', reading(5), new Map(), undefined],
  ])('%s', (_, before, now, expected) => {
    expect(packets(neverLess(before, now))).toBe(expected);
  });
});

describe('readings in the background', () => {
  const warned: object[] = [];
  const log = { warn: (fields: object) => warned.push(fields) };

  test('nothing at first, then the last reading, a new one when that is old', async () => {
    node.conns.put(flow('203.0.113.9:1'));
    const reader = createTotalsReader(tablesOf(node), log, { intervalMs: 0 });
    expect(reader.read()).toBeUndefined();
    const first = await until(() => reader.read(), 'the first reading');
    expect(first.get(web())).toMatchObject(ONE);
    node.conns.put(flow('203.0.113.9:2'));
    await until(() => reader.read()?.get(web())?.toBackend.packets === 6, 'a later reading');
    reader.close();
  });

  test('the latest is of a reading that has just ended', async () => {
    node.conns.put(flow('203.0.113.9:1'));
    const reader = createTotalsReader(tablesOf(node), log, { intervalMs: 0 });
    expect((await reader.latest())?.get(web())).toMatchObject(ONE);
    reader.close();
    expect((await reader.latest())?.get(web())).toMatchObject(ONE);
  });

  test('no reading more often than asked', async () => {
    let mappings = 0;
    node.conns.onMap = () => {
      mappings += 1;
    };
    const reader = createTotalsReader(tablesOf(node), log, { intervalMs: 60_000 });
    await until(() => reader.read(), 'the first reading');
    const ofOne = mappings;
    for (let turn = 0; turn < 50; turn += 1) {
      reader.read();
      await new Promise(setImmediate);
    }
    expect([ofOne > 0, mappings]).toEqual([true, ofOne]);
  });

  test('a connection that ends between two readings is not missing in the later one', async () => {
    node.conns.put(flow('203.0.113.9:1'));
    const reader = createTotalsReader(tablesOf(node), log, { intervalMs: 0 });
    await reader.latest();
    node.conns.clear();
    for (let reading = 0; reading < 2; reading += 1) {
      expect((await reader.latest())?.get(web())).toMatchObject(ONE);
    }
  });

  test('the next reader begins with what the one before has read, and shows no less', async () => {
    const last = {};
    node.conns.put(flow('203.0.113.9:1'));
    const before = createTotalsReader(tablesOf(node), log, { intervalMs: 0, last });
    await before.latest();
    before.close();
    node.conns.clear();
    const reader = createTotalsReader(tablesOf(node), log, { intervalMs: 0, last });
    expect(reader.read()?.get(web())).toMatchObject(ONE);
    expect((await reader.latest())?.get(web())).toMatchObject(ONE);
  });

  test('one that fails is told once in a row, and the next one counts', async () => {
    warned.length = 0;
    const fail = (code: string) => () => {
      throw new Error(code);
    };
    node.conns.onMap = fail('ENOMEM');
    const reader = createTotalsReader(tablesOf(node), log, { intervalMs: 0 });
    await expect(reader.latest()).resolves.toBeUndefined();
    await expect(reader.latest()).resolves.toBeUndefined();
    expect(warned).toEqual([{ reason: 'ENOMEM' }]);
    node.conns.onMap = () => undefined;
    node.conns.put(flow('203.0.113.9:1'));
    expect((await reader.latest())?.get(web())).toMatchObject(ONE);
    node.conns.onMap = fail('EIO');
    expect((await reader.latest())?.get(web())).toMatchObject(ONE);
    expect(warned).toEqual([{ reason: 'ENOMEM' }, { reason: 'EIO' }]);
  });
});
