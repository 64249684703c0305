// SPDX-License-Identifier: Apache-2.0
// Connections from flow tables in memory: names, states of backends, orphans, sockets, and dropping what is stale.
import { beforeEach, describe, expect, test } from 'vitest';
import { readTraffic } from '../../../../../src/dataplane/bpf/flows/traffic/ended.ts';
import type { Connection, Leg } from '../../../../../src/dataplane/connections.ts';
import {
  legsOf,
  putFlow,
  RETURNS_DIRECTLY,
  UDP,
} from '../../../../support/dataplane/flow-bytes.ts';
import {
  createFlowNode,
  DNS,
  type FlowNode,
  putSocket,
  WEB,
  WEB6,
} from '../../../../support/dataplane/flow-node.ts';

let node: FlowNode;
beforeEach(() => {
  node = createFlowNode();
});

const CLIENT = '203.0.113.9:41234';
const BACKEND = '10.1.1.5:8080';
const flow = (facts: Partial<Parameters<typeof putFlow>[1]> = {}) => ({
  ...{ client: CLIENT, frontend: WEB, backend: BACKEND, ids: node.idsOf(BACKEND) },
  ...facts,
});
const listed = (): readonly Connection[] => [...node.connections().all()];
const only = (): Connection => {
  const [connection, ...others] = listed();
  if (connection === undefined || others.length > 0) throw new Error(`${others.length + 1} found`);
  return connection;
};
const serviceOf = ({ port }: Connection): string | undefined =>
  port && `${port.name}:${port.portName}`;

test('a direct return has its flow entry alone, and no answers', () => {
  putFlow(node.flows, flow({ flowFlags: RETURNS_DIRECTLY, toBackend: [5, 274] }), undefined, [
    'flow',
  ]);
  const view = only().read();
  expect(view).toMatchObject({ state: 'established', returnsDirectly: true, legs: ['flow'] });
  expect(view?.snat).toBeUndefined();
  expect(view?.toClient).toBeUndefined();
});

test('a masqueraded flow with all its entries', () => {
  putFlow(
    node.flows,
    flow({
      snat: '10.1.0.1:41234',
      bornSeconds: 100,
      seenSeconds: 160,
      toBackend: [12, 1500],
      toClient: [2 ** 33, 2 ** 42],
    }),
  );
  const connection = only();
  expect(connection).toMatchObject({
    ...{ origin: 'packet', family: 'IPv4', protocol: 'TCP', client: CLIENT, frontend: WEB },
    ...{ backend: BACKEND, backendState: 'active' },
  });
  expect(serviceOf(connection)).toBe('web:http');
  expect(connection.read()).toEqual({
    ...{ state: 'established', snat: '10.1.0.1:41234', legs: ['flow', 'nat', 'snat'] },
    ...{ bornSeconds: 100, seenSeconds: 160 },
    toBackend: { packets: 12, bytes: 1500 },
    toClient: { packets: 2 ** 33, bytes: 2 ** 42 },
  });
});

test.each<[string, Parameters<typeof flow>[0], string | undefined, readonly Leg[]]>([
  ['not masqueraded', {}, undefined, ['flow', 'nat']],
  ['another port of the client', { clientPort: 50_000 }, '203.0.113.9:50000', ['flow', 'nat']],
])('%s', (_, facts, snat, legs) => {
  putFlow(node.flows, flow(facts), 'halfOpen');
  expect(only().read()).toMatchObject({ snat, legs });
});

test('a flow without its nat entry is listed, without what only that has', () => {
  putFlow(node.flows, flow({ toBackend: [3, 180], state: 'new' }), 'halfOpen', ['flow']);
  const view = only().read();
  expect(view).toMatchObject({ state: 'new', legs: ['flow'], toBackend: { packets: 3 } });
  expect(view?.toClient).toBeUndefined();
});

test('families, protocols and both tables', () => {
  const backend6 = '[fd00:10::5]:8080';
  putFlow(node.flows, flow());
  putFlow(
    node.flows,
    flow({
      client: '[2001:db8::9]:999',
      frontend: WEB6,
      backend: backend6,
      ids: node.idsOf(backend6),
    }),
    'halfOpen',
  );
  putFlow(
    node.flows,
    flow({
      protocol: UDP,
      frontend: DNS,
      backend: '10.1.1.53:53',
      ids: node.idsOf('10.1.1.53:53'),
    }),
  );
  expect(listed().map((one) => [serviceOf(one), one.protocol, one.family, one.client])).toEqual([
    ['web:http', 'TCP', 'IPv4', CLIENT],
    ['dns:http', 'UDP', 'IPv4', CLIENT],
    ['web:http', 'TCP', 'IPv6', '[2001:db8::9]:999'],
  ]);
});

describe('backends', () => {
  test('gone: the Service that has the frontend is still named', () => {
    putFlow(node.flows, flow());
    node.sync(['10.1.2.5:8080'], ['10.1.1.53:53']);
    expect(only()).toMatchObject({ backendState: 'gone' });
    expect(serviceOf(only())).toBe('web:http');
  });

  test('another generation: the name is that of the port that has the frontend now', () => {
    const ids = { ...node.idsOf(BACKEND), generation: 99, serviceId: 3 };
    putFlow(node.flows, flow({ ids }));
    expect(only()).toMatchObject({ backendState: 'gone' });
    expect(serviceOf(only())).toBe('web:http');
  });

  test('no Service has the frontend any more', () => {
    const ids = { ...node.idsOf(BACKEND), generation: 99 };
    putFlow(node.flows, flow({ ids, frontend: '192.0.2.99:80' }));
    expect(only().port).toBeUndefined();
  });

  test('an id beyond the table', () => {
    putFlow(node.flows, flow({ ids: { ...node.idsOf(BACKEND), backendId: 1_000_000 } }));
    expect(only().backendState).toBe('gone');
  });
});

describe('orphans', () => {
  test('entries without a flow are one connection each', () => {
    const facts = flow({ snat: '10.1.0.1:41234', toClient: [5, 500] });
    putFlow(node.flows, facts, 'main', ['nat', 'snat']);
    const orphan = only();
    expect(orphan).toMatchObject({ client: CLIENT, frontend: WEB, backendState: 'unknown' });
    expect(serviceOf(orphan)).toBe('web:http');
    expect(orphan.read()).toMatchObject({
      ...{ state: 'orphan', legs: ['nat', 'snat'], snat: '10.1.0.1:41234' },
      toClient: { packets: 5, bytes: 500 },
    });
    expect(orphan.dropStale()).toBe(false);
    node.flows.IPv4.nat.main.delete(legsOf(facts).nat[0]);
    expect(orphan.read()).toBeUndefined();
    expect(only()).toMatchObject({ client: CLIENT, frontend: '', backend: BACKEND });
    expect(only().read()).toMatchObject({ state: 'orphan', legs: ['snat'] });
  });

  test('one whose flow comes back is none any more', () => {
    putFlow(node.flows, flow(), 'main', ['nat']);
    const orphan = only();
    putFlow(node.flows, flow());
    expect(orphan.read()).toBeUndefined();
  });
});

test('what keeps answers to the node from its NodePorts is no connection', () => {
  const own = '10.1.0.1:30080';
  putFlow(node.flows, flow({ client: own, snat: own }), 'main', ['snat']);
  expect(listed()).toEqual([]);
});

describe('sockets', () => {
  test('records of TCP sockets, by cookie', () => {
    putSocket(node, 0x1a2b, WEB, BACKEND);
    putSocket(node, 7, WEB6, '[fd00:10::5]:8080');
    expect(listed()).toMatchObject([
      { origin: 'socket', client: 'sk:1a2b', frontend: WEB, backend: BACKEND, family: 'IPv4' },
      { client: 'sk:7', frontend: WEB6, backend: '[fd00:10::5]:8080', family: 'IPv6' },
    ]);
    expect(listed().map(serviceOf)).toEqual(['web:http', 'web:http']);
    const [first] = listed();
    expect(first?.read()).toMatchObject({ state: 'open', legs: [] });
    node.sockets.delete(Uint8Array.of(0x2b, 0x1a, 0, 0, 0, 0, 0, 0));
    expect(first?.read()).toBeUndefined();
    expect(first?.dropStale()).toBe(false);
  });

  test('each origin alone, and without the packet layer', () => {
    putFlow(node.flows, flow());
    putSocket(node, 7, WEB, BACKEND);
    const origins = (hasPackets: boolean, origin?: 'packet' | 'socket'): readonly string[] =>
      [...node.connections(hasPackets).all(origin)].map((one) => one.origin);
    expect(origins(true)).toEqual(['packet', 'socket']);
    expect(origins(true, 'packet')).toEqual(['packet']);
    expect(origins(true, 'socket')).toEqual(['socket']);
    expect(origins(false)).toEqual(['socket']);
    expect(node.connections(false).hasPackets).toBe(false);
  });
});

describe('dropping what is stale', () => {
  const facts = () =>
    flow({ snat: '10.1.0.1:41234', toBackend: [12, 1500], toClient: [9, 90_000] });
  const entries = (): number =>
    (['flow', 'nat', 'snat'] as const)
      .flatMap((leg) => Object.values(node.flows.IPv4[leg]))
      .reduce((sum, table) => sum + table.size(), 0);

  test.each(['main', 'halfOpen'] as const)('all entries go, and the counters stay (%s)', (tier) => {
    putFlow(node.flows, facts(), tier);
    const { frontendId } = facts().ids;
    node.sync(['10.1.2.5:8080'], []);
    expect(only().dropStale()).toBe(true);
    expect(entries()).toBe(0);
    expect(readTraffic(node.traffic, frontendId)).toEqual({
      toBackend: { packets: 12, bytes: 1500 },
      toClient: { packets: 9, bytes: 90_000 },
    });
  });

  test('not with a backend that is there, nor twice', () => {
    putFlow(node.flows, facts());
    const connection = only();
    expect(connection.dropStale()).toBe(false);
    expect(entries()).toBe(3);
    node.sync(['10.1.2.5:8080'], []);
    const again = only();
    expect(again.dropStale()).toBe(true);
    expect(again.dropStale()).toBe(false);
  });

  test('not if the flow got another backend meanwhile', () => {
    const stale = facts();
    putFlow(node.flows, stale);
    node.sync(['10.1.2.5:8080'], []);
    const connection = only();
    expect(connection.backendState).toBe('gone');
    const other = '10.1.2.5:8080';
    putFlow(node.flows, { ...stale, backend: other, ids: node.idsOf(other) });
    expect(connection.dropStale()).toBe(false);
    expect(node.flows.IPv4.flow.main.size()).toBe(1);
  });
});
