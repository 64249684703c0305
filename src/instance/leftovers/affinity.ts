// SPDX-License-Identifier: Apache-2.0
// Session affinity from one engine to the others: the maps of eBPF remember clients, and so do the lists of xt_recent and the sets of
// nftables, which have the same names under kube-proxy. A hand-over copies what one location remembers to all others that
// have the Service; what is newer there stays.
import { socketClients } from '../../engines/bpf/kernel/affinity/namespaces.ts';
import {
  type PinnedAffinity,
  withPinnedAffinity,
} from '../../engines/bpf/kernel/affinity/pinned.ts';
import {
  hasLists,
  maxClients,
  rememberByRules,
  rememberedByRules,
} from '../../engines/iptables/kernel/affinity/lists.ts';
import { NFT_TABLE as KUBE_PROXY } from '../../engines/kube-proxy/serving/nftables.ts';
import { affinityOfTable, rememberInTable } from '../../engines/nftables/kernel/affinity.ts';
import { TABLE } from '../../engines/nftables/rules/names.ts';
import type { AffinitySets } from '../../engines/nftables/state/affinity.ts';
import type { AffinityPort, Remembered } from '../../engines/predecessor.ts';
import { FairleadError } from '../../errors.ts';

/** Where clients are remembered. Rules of kube-proxy have the lists of fairlead's, and a table of their own. */
type AffinityLocation = 'maps' | 'lists' | typeof TABLE | typeof KUBE_PROXY;

const TABLES = [TABLE, KUBE_PROXY] as const;

/** Once the new engine has the Services, and as long as the old one has them. @returns how many entries are new */
export async function handAffinity(
  bpfRoot: string,
  from: readonly Exclude<AffinityLocation, 'maps'>[] | 'maps',
): Promise<number> {
  const tables = new Map<AffinityLocation, readonly AffinitySets[]>();
  for (const table of TABLES) tables.set(table, await affinityOfTable(table));
  const inTables = [...tables.values()].flat();
  if (!hasLists() && inTables.length === 0) return 0;
  const sources: readonly AffinityLocation[] = from === 'maps' ? ['maps'] : from;
  let count = 0;
  for (const source of sources) {
    const remembered = await rememberedIn(source, { bpfRoot, tables });
    if (remembered.length === 0) continue;
    if (source !== 'maps')
      count += (await withMaps(bpfRoot, (maps) => maps.remember(remembered))) ?? 0;
    if (source !== 'lists') count += rememberByRules(remembered, maxClients());
    for (const table of TABLES) {
      if (table !== source)
        count += await rememberInTable(table, tables.get(table) ?? [], remembered);
    }
  }
  return count;
}

interface Known {
  readonly bpfRoot: string;
  readonly tables: ReadonlyMap<AffinityLocation, readonly AffinitySets[]>;
}

async function rememberedIn(
  location: AffinityLocation,
  { bpfRoot, tables }: Known,
): Promise<readonly Remembered[]> {
  if (location === 'maps') return (await withMaps(bpfRoot, (maps) => maps.remembered())) ?? [];
  if (location !== 'lists') return (tables.get(location) ?? []).flatMap((sets) => sets.remembered);
  if (!hasLists()) return [];
  const ofTables = [...tables.values()].flat().flatMap(({ ports }) => ports);
  const ofMaps = await withMaps(bpfRoot, ({ ports }): readonly AffinityPort[] => ports);
  // A list has the name of its endpoint: who else has the Service knows it.
  return rememberedByRules([...(ofMaps ?? []), ...ofTables]);
}

/** undefined: there are no maps. */
async function withMaps<T>(
  bpfRoot: string,
  use: (maps: PinnedAffinity) => T,
): Promise<T | undefined> {
  const sockets = await socketClients();
  try {
    return withPinnedAffinity(bpfRoot, sockets, use);
  } catch (error) {
    if (error instanceof FairleadError && error.code === 'NOT_FOUND') return undefined;
    throw error;
  }
}
