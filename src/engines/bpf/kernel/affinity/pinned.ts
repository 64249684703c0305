// SPDX-License-Identifier: Apache-2.0
// Reads and writes session affinity in the pinned maps, whether an agent runs or not.
import type { Family } from '../../../../model/types.ts';
import type { AffinityPort, Remembered } from '../../../predecessor.ts';
import {
  isNewer,
  type Programmed,
  programmedOf,
  recordsOf,
  rememberedBy,
  type SocketClient,
} from '../../affinity/records.ts';
import { snapshotOf } from '../../inspect/view.ts';
import { decodeBackend } from '../../layout/layout.ts';
import { element, type HashTable } from '../../state/tables.ts';
import { mapNamed } from '../loader/attach.ts';
import { openPinned } from '../loader/open-pinned.ts';
import { hashTable, kernelTables, TABLE_MAPS } from '../maps/kernel.ts';

export interface PinnedAffinity {
  /** Service ports that have it. */
  readonly ports: readonly AffinityPort[];
  remembered(): readonly Remembered[];
  /** Of clients that it has not seen since. @returns how many entries were written */
  remember(all: readonly Remembered[]): number;
}

/** Throws NOT_FOUND, NO_PRIVILEGE. */
export function withPinnedAffinity<T>(
  bpfRoot: string,
  sockets: readonly SocketClient[],
  use: (affinity: PinnedAffinity) => T,
): T {
  const names = [...TABLE_MAPS, 'fl_affinity'] as const;
  const maps = new Map(names.map((name) => [name as string, openPinned(bpfRoot, name)]));
  try {
    const tables = kernelTables((name) => mapNamed(maps, name));
    const serviceIdOf = (family: Family, id: number): number =>
      decodeBackend(element(tables.backend[family], id), family).serviceId;
    const programmed = programmedOf(snapshotOf(tables), serviceIdOf, sockets);
    return use(affinityIn(hashTable(mapNamed(maps, 'fl_affinity')), programmed));
  } finally {
    for (const map of maps.values()) map.close();
  }
}

const affinityIn = (table: HashTable, programmed: Programmed): PinnedAffinity => ({
  ports: programmed.ports,
  remembered: () => rememberedBy(programmed, table.readAll(), process.hrtime.bigint()),
  remember(all) {
    const records = recordsOf(programmed, all, process.hrtime.bigint());
    const newer = records.filter((record) => isNewer(record, table.get(record.key)));
    const refused = table.put(
      newer.map(({ key }) => key),
      newer.map(({ value }) => value),
    );
    return newer.length - refused.length;
  },
});
