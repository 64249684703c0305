// SPDX-License-Identifier: Apache-2.0
// A pinned table of connections, as an agent has it, with connections in it, and the migration of it to other sizes.
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { sizesOf } from '../../../../src/engines/bpf/conn/sizes.ts';
import { loadLayer } from '../../../../src/engines/bpf/kernel/loader/load.ts';
import { pinFolder } from '../../../../src/engines/bpf/kernel/loader/pins.ts';
import { closeAll } from '../../../../src/engines/bpf/kernel/loader/undo.ts';
import type { Carry } from '../../../../src/engines/bpf/kernel/migration/carry.ts';
import { migrateMaps } from '../../../../src/engines/bpf/kernel/migration/migrate.ts';
import { encodeU32 } from '../../../../src/engines/bpf/layout/layout.ts';
import {
  type MapVersions,
  mapPin,
  type PinnedMap,
} from '../../../../src/engines/bpf/layout/versions.ts';
import type { Family } from '../../../../src/model/types.ts';
import { type BpfMap, type BpfObject, openPinnedMap } from '../../../../src/sys/native.ts';
import { packageRoot } from '../../../../src/sys/package.ts';
import { ConnTable, openTable, suffixOf } from '../conn/support/conn-table.ts';
import { type Connection, SECRET } from '../conn/support/operation.ts';

/** Of the clients' index of each family. */
export type Buckets = readonly [IPv4: number, IPv6: number];

export const sizesFor = ([four, six]: Buckets) => ({ ...sizesOf(4, four), ...sizesOf(6, six) });
export const carryObject = join(packageRoot(), 'build/bpf/carry_conn.bpf.o');
const layerOf = (bytes: Uint8Array) => ({
  ...{ name: 'maps', objects: [{ bytes, rodata: [{}] }], hooks: [] },
});

/** Pins maps that no program uses. */
export async function makeTable(
  bpfRoot: string,
  bytes: Uint8Array,
  buckets: Buckets,
  versions?: MapVersions,
) {
  const folder = pinFolder(bpfRoot);
  mkdirSync(folder.maps, { recursive: true });
  const options = { folder, sizes: sizesFor(buckets), ...(versions && { versions }) };
  const { maps } = await loadLayer(layerOf(bytes), options, []);
  const settings = maps.get('fl_packet')!.get(encodeU32(0))!;
  new DataView(settings.buffer, settings.byteOffset).setBigUint64(0, SECRET, true);
  maps.get('fl_packet')!.put(encodeU32(0), settings);
  closeAll(maps.values());
}

export const beginMigration = (
  bpfRoot: string,
  bytes: Uint8Array,
  buckets: Buckets,
  versions?: MapVersions,
): Promise<Carry> =>
  migrateMaps({
    ...{ bpfRoot, layers: [layerOf(bytes)], sizes: sizesFor(buckets), versions },
    table: () => readFileSync(carryObject),
  });

/** @param linked called when all links are replaced */
export async function endMigration(carry: Carry, linked: () => void = () => undefined) {
  await carry.before('sockets');
  await carry.before('flows');
  await carry.linked();
  linked();
  await carry.after();
}

interface Where {
  /** Of pins. */
  readonly folder: string;
  readonly family: Family;
  readonly versions?: MapVersions | undefined;
}

interface Pinned {
  readonly table: ConnTable;
  /** Packets and bytes of all records, which the programs of tests do not count. */
  readonly traffic: Uint8Array;
}

/** The programs that operate on one family of what is pinned there. */
export function withTable<T>({ folder, family, versions }: Where, use: (pinned: Pinned) => T): T {
  const opened: BpfMap[] = [];
  const pinned = (name: string): BpfMap => {
    const one = openPinnedMap(join(folder, mapPin(name as PinnedMap, versions)));
    opened.push(one);
    return one;
  };
  const buckets = pinned(`fl_client${suffixOf(family)}`).info.maxEntries;
  // Programs have both families in one size: the other one is not the pinned one.
  const own = openTable('conn_drive', buckets);
  const isOwn = (name: string): boolean =>
    name.startsWith('fl_conn_traf') ||
    (/[46]$/.test(name) && !name.endsWith(`${suffixOf(family)}`));
  const map = (name: string): BpfMap => (isOwn(name) ? own.map(name) : pinned(name));
  try {
    own.load();
    const traffic = new Uint8Array(pinned(`fl_conn_traf${suffixOf(family)}`).mmap());
    const table = new ConnTable(family, buckets, { map } as unknown as BpfObject);
    try {
      return use({ table, traffic });
    } finally {
      table.close();
    }
  } finally {
    own.close();
    closeAll(opened);
  }
}

/** Of struct conn_traffic; the packets of the client are behind its bytes. */
const TRAFFIC_BYTES = 24;
const packetsAt = (index: number): number => TRAFFIC_BYTES * index + 8;

/** Each has other counts of packets and bytes. */
export function beginAll(
  { table, traffic }: Pinned,
  confirmed: readonly Connection[],
  halfOpen: readonly Connection[],
): void {
  for (const one of [...confirmed, ...halfOpen]) {
    if (table.begin(one) !== 'made') throw new Error(`no room for ${one.id}`);
    if (confirmed.includes(one)) table.confirm(one);
    traffic[packetsAt(table.find(one)!.index)] = 1 + (one.id % 255);
  }
}

/** All that a table has of a connection, wherever it is there. */
export function seen({ table, traffic }: Pinned, one: Connection) {
  const found = table.find(one);
  if (found === undefined) return undefined;
  const { index, ...rest } = found;
  const isFoundByReply = table.findReply(one)?.index === index;
  return { ...rest, isFoundByReply, packets: traffic[packetsAt(index)] };
}
