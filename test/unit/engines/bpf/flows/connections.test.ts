// SPDX-License-Identifier: Apache-2.0
// Connections from tables in memory: names, states of backends, sockets, and dropping what is stale.
import { beforeEach, describe, expect, test } from 'vitest';
import type { Connection } from '../../../../../src/engines/connections.ts';
import { type ConnFacts, UDP } from '../../../../support/dataplane/conn-bytes.ts';
import {
  type ConnNode,
  createConnNode,
  DNS,
  putSocket,
  WEB,
  WEB6,
} from '../../../../support/dataplane/conn-node.ts';

let node: ConnNode;
beforeEach(() => {
  node = createConnNode();
});

const CLIENT = '203.0.113.9:41234';
const BACKEND = '10.1.1.5:8080';
const flow = (facts: Partial<ConnFacts> = {}) => ({
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

test('a direct return has no answers', () => {
  node.conns.put(flow({ returnsDirectly: true, toBackend: [5, 274] }));
  const view = only().read();
  expect(view).toMatchObject({ state: 'established', returnsDirectly: true });
  expect(view?.snat).toBeUndefined();
  expect(view?.toClient).toBeUndefined();
});

test('a masqueraded connection', () => {
  node.conns.put(
    flow({
      snat: '10.1.0.1:41234',
      ...{ bornSeconds: 100, seenSeconds: 160, toBackend: [12, 1500] },
      toClient: [2 ** 33, 2 ** 42],
    }),
  );
  const connection = only();
  expect(connection).toMatchObject({
    ...{ origin: 'packet', family: 'IPv4', protocol: 'TCP', client: CLIENT, frontend: WEB },
    ...{ backend: BACKEND, backendState: 'active' },
  });
  expect(serviceOf(connection)).toBe('web:http');
  expect(connection.read()).toMatchObject({
    ...{ state: 'established', snat: '10.1.0.1:41234' },
    toBackend: { packets: 12, bytes: 1500 },
    toClient: { packets: 2 ** 33, bytes: 2 ** 42 },
  });
  expect(connection.read()?.bornSeconds).toBeCloseTo(100, 1);
  expect(connection.read()?.seenSeconds).toBeCloseTo(160, 1);
});

test.each<[string, Partial<ConnFacts>, string | undefined]>([
  ['not masqueraded', {}, undefined],
  ['another port of the client', { middlePort: 50_000 }, '203.0.113.9:50000'],
  ['masqueraded, no packet has left', { isMasqueraded: true }, undefined],
])('%s', (_, facts, snat) => {
  node.conns.put(flow({ ...facts, isHalfOpen: true }));
  expect(only().read()).toMatchObject({ snat });
});

test.each([
  ['new', 'new'],
  ['answered', 'new'],
  ['answered-twice', 'new'],
  ['established', 'established'],
  ['fin-client', 'half-closed'],
  ['fin-backend', 'half-closed'],
  ['reopened', 'half-closed'],
  ['shutdown', 'half-closed'],
  ['time-wait', 'closed'],
  ['closed-by-backend', 'closed'],
] as const)('%s is shown as %s', (state, shown) => {
  node.conns.put(flow({ state }));
  expect(only().read()?.state).toBe(shown);
});

test('one that has ended meanwhile, and another one in its place, are not it', () => {
  node.conns.put(flow({ bornSeconds: 5 }));
  const connection = only();
  node.conns.put(flow({ bornSeconds: 9 }));
  expect(connection.read()).toBeUndefined();
  node.conns.clear();
  expect(connection.read()).toBeUndefined();
});

test('families, protocols and both tables', () => {
  const backend6 = '[fd00:10::5]:8080';
  node.conns.put(flow());
  node.conns.put(
    flow({
      client: '[2001:db8::9]:999',
      frontend: WEB6,
      backend: backend6,
      ids: node.idsOf(backend6),
    }),
  );
  node.conns.put(
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
    node.conns.put(flow());
    node.sync(['10.1.2.5:8080'], ['10.1.1.53:53']);
    expect(only()).toMatchObject({ backendState: 'gone' });
    expect(serviceOf(only())).toBe('web:http');
  });

  test('another generation: the name is that of the port that has the frontend now', () => {
    const ids = { ...node.idsOf(BACKEND), generation: 99 };
    node.conns.put(flow({ ids }));
    expect(only()).toMatchObject({ backendState: 'gone' });
    expect(serviceOf(only())).toBe('web:http');
  });

  test('no Service has the frontend any more', () => {
    const ids = { ...node.idsOf(BACKEND), generation: 99 };
    node.conns.put(flow({ ids, frontend: '192.0.2.99:80' }));
    expect(only().port).toBeUndefined();
  });

  test('an id beyond the table', () => {
    node.conns.put(flow({ ids: { ...node.idsOf(BACKEND), backendId: 1_000_000 } }));
    expect(only().backendState).toBe('gone');
  });
});

test('a port of the node that is only noted is no connection', () => {
  const ids = { ...node.idsOf(BACKEND), backendId: 0 };
  node.conns.put(flow({ client: '10.1.0.1:30080', ids }));
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
    expect(first?.read()).toMatchObject({ state: 'open' });
    node.sockets.delete(Uint8Array.of(0x2b, 0x1a, 0, 0, 0, 0, 0, 0));
    expect(first?.read()).toBeUndefined();
    expect(first?.dropStale()).toBe(false);
  });

  test('each origin alone, and without the packet layer', () => {
    node.conns.put(flow());
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
  test('it is expired, and no longer listed', () => {
    node.conns.put(flow());
    node.sync(['10.1.2.5:8080'], []);
    expect(only().dropStale()).toBe(true);
    expect(listed()).toEqual([]);
  });

  test('not with a backend that is there', () => {
    node.conns.put(flow());
    expect(only().dropStale()).toBe(false);
    expect(listed()).toHaveLength(1);
  });

  test('not if another connection has the record by now', () => {
    const first = flow({ bornSeconds: 5 });
    node.conns.put(first);
    node.sync(['10.1.2.5:8080'], []);
    const connection = only();
    expect(connection.backendState).toBe('gone');
    const other = '10.1.2.5:8080';
    node.conns.put({ ...first, backend: other, ids: node.idsOf(other), bornSeconds: 9 });
    expect(connection.dropStale()).toBe(false);
    expect(listed()).toHaveLength(1);
  });
});
