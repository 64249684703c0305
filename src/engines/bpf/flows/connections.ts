// SPDX-License-Identifier: Apache-2.0
// Records of the table of connections, and of sockets, as connections.
import { FAMILIES } from '../../../model/types.ts';
import type { Connection, ConnectionOrigin, Connections } from '../../connections.ts';
import type { ConnTables } from '../conn/conn-table.ts';
import type { Tables } from '../state/tables.ts';
import { createDirectory } from './directory.ts';
import { packetConnections } from './packet-connections.ts';
import { type SocketTable, socketConnections } from './sockets.ts';

export interface ConnectionTables {
  readonly tables: Tables;
  /** fl_tcp_sock. */
  readonly sockets: SocketTable;
  /** undefined: the packet layer is not loaded. */
  readonly packets: ConnTables | undefined;
}

export const connectionsOf = (from: ConnectionTables, close: () => void): Connections => ({
  hasPackets: from.packets !== undefined,
  ports: () => createDirectory(from.tables).ports(),
  all: (origin) => allOf(from, origin),
  close,
});

function* allOf(
  { tables, packets, sockets }: ConnectionTables,
  origin: ConnectionOrigin | undefined,
): Generator<Connection> {
  const directory = createDirectory(tables);
  if (packets !== undefined && origin !== 'socket') {
    for (const family of FAMILIES) yield* packetConnections({ table: packets[family], directory });
  }
  if (origin !== 'packet') yield* socketConnections(sockets, directory);
}
