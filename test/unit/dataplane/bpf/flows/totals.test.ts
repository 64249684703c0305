// SPDX-License-Identifier: Apache-2.0
// Packets and bytes of each frontend: ended and established flows, which frontend they belong to, and never less.
import { beforeEach, describe, expect, test } from 'vitest';
import { createTotalsReader } from '../../../../../src/dataplane/bpf/flows/kernel.ts';
import { addTraffic } from '../../../../../src/dataplane/bpf/flows/traffic/ended.ts';
import {
  neverLess,
  readTotals,
  type Totals,
} from '../../../../../src/dataplane/bpf/flows/traffic/totals.ts';
import { encodeFrontendKey, encodeU32 } from '../../../../../src/dataplane/bpf/maps/layout.ts';
import { type FlowFacts, putFlow, UDP } from '../../../../support/dataplane/flow-bytes.ts';
import {
  createFlowNode,
  DNS,
  type FlowNode,
  WEB,
  WEB6,
} from '../../../../support/dataplane/flow-node.ts';
import { until } from '../../../../support/until.ts';

let node: FlowNode;
beforeEach(() => {
  node = createFlowNode();
});

const tablesOf = ({ flows, traffic, tables }: FlowNode) => ({
  ...{ flows, traffic },
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

const flow = (client: string, facts: Partial<FlowFacts> = {}): FlowFacts => ({
  ...{ client, frontend: WEB, backend: '10.1.1.5:8080' },
  ...{ toBackend: [3, 300], toClient: [2, 2000] },
  ...facts,
});
const ONE = { toBackend: { packets: 3, bytes: 300 }, toClient: { packets: 2, bytes: 2000 } };

test('established flows count, half-open ones not yet', () => {
  putFlow(node.flows, flow('203.0.113.9:1'));
  putFlow(node.flows, flow('203.0.113.9:2'), 'halfOpen');
  expect(totals().get(web())).toMatchObject(ONE);
  putFlow(node.flows, flow('203.0.113.9:2'));
  expect(totals().get(web())).toMatchObject({
    toBackend: { packets: 6, bytes: 600 },
    toClient: { packets: 4, bytes: 4000 },
  });
});

test('what has ended stays', () => {
  addTraffic(node.traffic, web(), ONE);
  addTraffic(node.traffic, web(), ONE);
  expect(totals().get(web())?.toClient).toEqual({ packets: 4, bytes: 4000 });
  putFlow(node.flows, flow('203.0.113.9:1'));
  expect(totals().get(web())?.toClient).toEqual({ packets: 6, bytes: 6000 });
});

test('each flow belongs to its own frontend: family, protocol, and other ports of an address', () => {
  const udp = { protocol: UDP, frontend: DNS, backend: '10.1.1.53:53' };
  putFlow(node.flows, flow('203.0.113.9:1', udp));
  putFlow(node.flows, flow('203.0.113.9:2', { ...udp, protocol: 6 }));
  putFlow(node.flows, flow('[2001:db8::9]:3', { frontend: WEB6, backend: '[fd00:10::5]:8080' }));
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
    putFlow(node.flows, flow(`${client}:1`, { frontend: `${address}:30080`, backend }));
    putFlow(node.flows, flow(`${client}:2`, { frontend: `${address}:30081`, backend }));
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
    putFlow(node.flows, flow('203.0.113.9:1'));
    const reader = createTotalsReader(tablesOf(node), log, 0);
    expect(reader.read()).toBeUndefined();
    const first = await until(() => reader.read(), 'the first reading');
    expect(first.get(web())).toMatchObject(ONE);
    node.flows.IPv4.flow.main.delete(new Uint8Array(16));
    putFlow(node.flows, flow('203.0.113.9:2'));
    await until(() => reader.read()?.get(web())?.toBackend.packets === 6, 'a later reading');
    reader.close();
  });

  test('the latest is of a reading that has just ended', async () => {
    putFlow(node.flows, flow('203.0.113.9:1'));
    const reader = createTotalsReader(tablesOf(node), log, 0);
    expect((await reader.latest())?.get(web())).toMatchObject(ONE);
    reader.close();
    expect((await reader.latest())?.get(web())).toMatchObject(ONE);
  });

  test('no reading more often than asked', async () => {
    const reader = createTotalsReader(tablesOf(node), log, 60_000);
    reader.read();
    await until(() => reader.read(), 'the first reading');
    putFlow(node.flows, flow('203.0.113.9:1'));
    reader.read();
    for (let turn = 0; turn < 50; turn += 1) await new Promise(setImmediate);
    expect(reader.read()?.get(web())?.toBackend.packets).toBe(0);
  });

  test.each([0, 1])(
    'one that fails at batch %i is told once in a row, and the next one counts',
    async (batch) => {
      warned.length = 0;
      const { main } = node.flows.IPv4.flow;
      const batches = main.batches.bind(main);
      Object.assign(main, {
        *batches() {
          for (let at = 0; at < batch; at += 1)
            yield { keys: Buffer.of(), values: Buffer.of(), count: 0 };
          throw new Error('ENOMEM');
        },
      });
      const reader = createTotalsReader(tablesOf(node), log, 0);
      await expect(reader.latest()).resolves.toBeUndefined();
      await expect(reader.latest()).resolves.toBeUndefined();
      expect(warned).toEqual([{ reason: 'ENOMEM' }]);
      Object.assign(main, { batches });
      putFlow(node.flows, flow('203.0.113.9:1'));
      expect((await reader.latest())?.get(web())).toMatchObject(ONE);
      Object.assign(main, {
        batches: () => {
          throw new Error('EIO');
        },
      });
      expect((await reader.latest())?.get(web())).toMatchObject(ONE);
      expect(warned).toEqual([{ reason: 'ENOMEM' }, { reason: 'EIO' }]);
    },
  );
});
