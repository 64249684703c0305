// SPDX-License-Identifier: Apache-2.0
// Flows and socket records as connections. A flow is listed by its flow leg; its other legs are looked up when it is
// read. A leg that no flow leg leads to is a connection of its own, an orphan.
import { FAMILIES } from '../../../model/types.ts';
import type { Connection, ConnectionOrigin, Connections } from '../../connections.ts';
import type { ArrayTable, Tables } from '../maps/tables.ts';
import { createDirectory } from './directory.ts';
import { type FlowContext, flowConnections } from './flow-connections.ts';
import type { FlowTable, FlowTables } from './flow-tables.ts';
import { createKeySet } from './key-set.ts';
import { orphanConnections } from './orphans.ts';
import { socketConnections } from './sockets.ts';

export interface PacketTables {
  readonly flows: FlowTables;
  /** fl_traffic, by frontend id. */
  readonly traffic: ArrayTable;
}

export interface ConnectionTables {
  readonly tables: Tables;
  /** fl_tcp_sock. */
  readonly sockets: FlowTable;
  /** undefined: the packet layer is not loaded. */
  readonly packets: PacketTables | undefined;
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
    for (const family of FAMILIES) {
      const context: FlowContext = { ...packets, directory, family };
      const natKeys = createKeySet();
      yield* flowConnections(context, natKeys);
      yield* orphanConnections(context, natKeys);
    }
  }
  if (origin !== 'packet') yield* socketConnections(sockets, directory);
}
