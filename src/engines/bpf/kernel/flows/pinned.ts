// SPDX-License-Identifier: Apache-2.0
// The connections in an instance's pinned maps. Commands read them by themselves, with or without an agent: a
// million of them would keep the agent's event loop busy.
import { FairleadError } from '../../../../errors.ts';
import type { BpfMap } from '../../../../sys/native.ts';
import type { Connections } from '../../../connections.ts';
import { CONN_MAPS, type ConnTables, connTables } from '../../conn/conn-table.ts';
import { connectionsOf } from '../../flows/connections.ts';
import { mapNamed } from '../loader/attach.ts';
import { openPinned } from '../loader/open-pinned.ts';
import { hashTable, kernelTables, TABLE_MAPS } from '../maps/kernel.ts';

type OpenMaps = Map<string, BpfMap>;

/** Throws NOT_FOUND, NO_PRIVILEGE. */
export function pinnedConnections(bpfRoot: string): Connections {
  const maps: OpenMaps = new Map();
  const close = (): void => {
    for (const map of maps.values()) map.close();
  };
  try {
    for (const name of [...TABLE_MAPS, 'fl_tcp_sock'] as const) {
      maps.set(name, openPinned(bpfRoot, name));
    }
    const packets = openPackets(bpfRoot, maps);
    const named = (name: string): BpfMap => mapNamed(maps, name);
    const sockets = hashTable(named('fl_tcp_sock'));
    return connectionsOf({ tables: kernelTables(named), sockets, packets }, close);
  } catch (error) {
    close();
    throw error;
  }
}

/** undefined if the maps of the packet layer are not pinned. */
function openPackets(bpfRoot: string, maps: OpenMaps): ConnTables | undefined {
  try {
    for (const name of [...CONN_MAPS, 'fl_packet'] as const) {
      maps.set(name, openPinned(bpfRoot, name));
    }
  } catch (error) {
    if (error instanceof FairleadError && error.code === 'NOT_FOUND') return undefined;
    throw error;
  }
  return connTables((name) => mapNamed(maps, name));
}
