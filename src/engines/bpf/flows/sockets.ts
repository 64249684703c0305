// SPDX-License-Identifier: Apache-2.0
// The records of TCP sockets (fl_tcp_sock) as connections. Those of UDP sockets are in socket storage, which
// only programs can read.
import type { Family } from '../../../model/types.ts';
import type { Connection, ConnectionView } from '../../connections.ts';
import { protocolOf } from '../layout/layout.ts';
import type { HashTable } from '../state/tables.ts';
import type { Directory } from './directory.ts';
import { orderOf, type Side, sideText } from './side.ts';

/** fl_tcp_sock. */
export type SocketTable = Pick<HashTable, 'get' | 'readAll'>;

interface Element {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

const OPEN: ConnectionView = {
  state: 'open',
  snat: undefined,
  bornSeconds: undefined,
  seenSeconds: undefined,
  toBackend: undefined,
  toClient: undefined,
};

export function* socketConnections(
  table: SocketTable,
  directory: Directory,
): Generator<Connection> {
  for (const element of table.readAll()) yield socketConnection(table, element, directory);
}

function socketConnection(
  table: SocketTable,
  { key, value }: Element,
  directory: Directory,
): Connection {
  const view = new DataView(value.buffer, value.byteOffset, value.byteLength);
  const family: Family = view.getUint8(47) === 6 ? 'IPv6' : 'IPv4';
  const side = (addressAt: number, portAt: number): Side => ({
    address: value.subarray(family === 'IPv4' ? addressAt + 12 : addressAt, addressAt + 16),
    port: view.getUint16(portAt, true),
  });
  const frontend = side(0, 32);
  const protocol = protocolOf(view.getUint8(46));
  const ref = {
    family,
    backendId: view.getUint32(36, true),
    serviceId: view.getUint32(40, true),
    generation: view.getUint16(44, true),
  };
  // The cookie, as the key has it, from its highest byte on.
  const cookie = Buffer.from(key)
    .reverse()
    .toString('hex')
    .replace(/^0+(?=.)/, '');
  return {
    key: `socket ${cookie}`,
    order: `${family}${orderOf(frontend)}${cookie.padStart(16, '0')}`,
    ...{ origin: 'socket', family, protocol },
    client: `sk:${cookie}`,
    frontend: sideText(frontend),
    backend: sideText(side(16, 34)),
    ...directory.describe(ref, frontend, protocol),
    read: () => {
      const now = table.get(key);
      return now !== undefined && Buffer.compare(now, value) === 0 ? OPEN : undefined;
    },
    // The socket would stay connected to the backend.
    dropStale: () => false,
  };
}
