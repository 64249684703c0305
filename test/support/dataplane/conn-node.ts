// SPDX-License-Identifier: Apache-2.0
// A node with two Services in memory tables, and connections of them: what `fairlead connections` reads.
import {
  type ConnectionTables,
  connectionsOf,
} from '../../../src/engines/bpf/flows/connections.ts';
import { snapshotOf } from '../../../src/engines/bpf/inspect/view.ts';
import { createTableSync } from '../../../src/engines/bpf/state/table-sync.ts';
import type { Connections } from '../../../src/engines/connections.ts';
import type { Backend, Plan } from '../../../src/plan/types.ts';
import { backend, clusterIp, planOf, servicePort } from '../../unit/engines/bpf/plans.ts';
import { createMemoryTables, memoryArray } from '../tables/memory.ts';
import { applyAll } from './apply-all.ts';
import { type ConnFacts, type MemoryConns, memoryConns, side } from './conn-bytes.ts';

export const WEB = '192.0.2.10:80';
export const DNS = '192.0.2.53:53';
export const WEB6 = '[2001:db8:96::a]:80';

export interface ConnNode {
  readonly conns: MemoryConns;
  readonly sockets: MemorySockets;
  readonly traffic: ReturnType<typeof memoryArray>;
  readonly tables: ReturnType<typeof createMemoryTables>;
  /** Ids of a backend as a record has them. */
  idsOf(backend: string): NonNullable<ConnFacts['ids']> & { readonly serviceId: number };
  /** The Services get these backends. */
  sync(web: readonly string[], dns: readonly string[]): void;
  connections(hasPackets?: boolean): Connections;
}

const FRONTENDS = 64;
/** struct socket_peer of bpf/socket/types.h. */
const SOCKET_PEER_SIZE = 48;

/** fl_tcp_sock. */
export interface MemorySockets {
  get(key: Uint8Array): Uint8Array | undefined;
  readAll(): readonly { readonly key: Uint8Array; readonly value: Uint8Array }[];
  put(key: Uint8Array, value: Uint8Array): void;
  delete(key: Uint8Array): void;
}

function memorySockets(): MemorySockets {
  const held = new Map<string, { readonly key: Uint8Array; readonly value: Uint8Array }>();
  const hex = (key: Uint8Array): string => Buffer.from(key).toString('hex');
  return {
    get: (key) => held.get(hex(key))?.value,
    readAll: () => [...held.values()],
    put: (key, value) => void held.set(hex(key), { key, value }),
    delete: (key) => void held.delete(hex(key)),
  };
}

export function createConnNode(): ConnNode {
  const tables = createMemoryTables({
    ...{ frontends: FRONTENDS, backends: 64, slotBlocks: 64, services: 64 },
  });
  const tableSync = createTableSync(tables, () => Promise.resolve());
  const conns = memoryConns();
  const sockets = memorySockets();
  const traffic = memoryArray('fl_traffic', FRONTENDS, 32);
  const from: ConnectionTables = { tables, sockets, packets: conns.tables };
  const node: ConnNode = {
    ...{ conns, sockets, traffic, tables },
    idsOf(text) {
      const found = snapshotOf(tables).backends.find((view) => view.backend === text);
      if (found === undefined) throw new TypeError(`no backend ${text}`);
      const { id: backendId = 0, generation = 0, port } = found;
      const serviceId = port.name === 'web' ? (port.family === 'IPv4' ? 1 : 2) : 3;
      return { backendId, generation, serviceId, frontendId: serviceId };
    },
    sync(web, dns) {
      applyAll(tableSync, planWith(web, dns));
    },
    connections: (hasPackets = true) =>
      connectionsOf(hasPackets ? from : { ...from, packets: undefined }, () => undefined),
  };
  node.sync(['10.1.1.5:8080', '10.1.2.5:8080', '[fd00:10::5]:8080'], ['10.1.1.53:53']);
  return node;
}

function planWith(web: readonly string[], dns: readonly string[]): Plan {
  const backendsOf = (texts: readonly string[], isIpv6: boolean): readonly Backend[] =>
    texts
      .filter((text) => text.startsWith('[') === isIpv6)
      .map((text) => {
        const { port } = side(text);
        return backend(text.replace(/:\d+$/, '').replace(/^\[|\]$/g, ''), port);
      });
  return planOf(
    servicePort('web', [clusterIp('192.0.2.10')], backendsOf(web, false)),
    servicePort('web', [clusterIp('2001:db8:96::a')], backendsOf(web, true), { family: 'IPv6' }),
    servicePort('dns', [clusterIp('192.0.2.53', 53)], backendsOf(dns, false), { protocol: 'UDP' }),
  );
}

/** The record of a TCP socket, by its cookie. */
export function putSocket(
  { sockets, idsOf }: ConnNode,
  cookie: number,
  frontend: string,
  backendText: string,
): void {
  const value = new Uint8Array(SOCKET_PEER_SIZE);
  const view = new DataView(value.buffer);
  const isIpv6 = frontend.startsWith('[');
  for (const [at, text] of [frontend, backendText].entries()) {
    const { address, port } = side(text);
    value.set(address, 16 * at + 16 - address.length);
    if (!isIpv6) value.fill(0xff, 16 * at + 10, 16 * at + 12);
    view.setUint16(32 + 2 * at, port, true);
  }
  const { backendId, serviceId, generation } = idsOf(backendText);
  view.setUint32(36, backendId, true);
  view.setUint32(40, serviceId, true);
  view.setUint16(44, generation, true);
  view.setUint8(46, 6);
  view.setUint8(47, isIpv6 ? 6 : 4);
  sockets.put(new Uint8Array(new BigUint64Array([BigInt(cookie)]).buffer), value);
}
