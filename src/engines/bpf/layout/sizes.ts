// SPDX-License-Identifier: Apache-2.0
// The configured sizes of tables -> max_entries of the maps behind them.

import { FIRST_CONNECTIONS } from '../conn/growth.ts';
import { bucketsFor, capacityOf, connSizes, sizesOf } from '../conn/sizes.ts';

type MapSizes = Readonly<Record<string, number>>;

/** By the table names of --map-size. */
const MAPS_OF: Readonly<Record<string, (entries: number) => MapSizes>> = {
  // Frontend ids are shared by both families; ids of frontends and backends start at 1.
  frontends: (n) => ({
    fl_frontend4: n,
    fl_frontend6: n,
    fl_frontend: 2 * n + 1,
    fl_fe_stat: 2 * n + 1,
    fl_traffic: 2 * n + 1,
    fl_ping: 2 * n,
  }),
  backends: (n) => ({
    fl_backend4: n + 1,
    fl_backend6: n + 1,
    fl_be_stat: n + 1,
    fl_backend_node: n + 1,
    fl_be_flows: n + 1,
  }),
  'service-ports': (n) => ({ fl_service: n }),
  'slot-blocks': (n) => ({ fl_slot_block: n }),
  affinity: (n) => ({ fl_affinity: n }),
  'source-ranges': (n) => ({ fl_range: n }),
  flows: (n) => connSizes(bucketsFor(n)),
  // As large as they are now, if that is less.
  flows4: (n) => sizesOf(4, bucketsFor(n)),
  flows6: (n) => sizesOf(6, bucketsFor(n)),
};

/**
 * `{frontends: 4}` -> `{fl_frontend4: 4, …}`; names were checked when the settings were read. The objects declare the other
 * sizes, except those of flows.
 */
export function maxEntries(tables: MapSizes): MapSizes {
  const sizes = Object.entries({ flows: FIRST_CONNECTIONS, ...tables }).map(([name, entries]) =>
    MAPS_OF[name]?.(entries),
  );
  return Object.assign({}, ...sizes);
}

/** The least number of entries of the table behind a map that gives it room for `needed`. */
export function sizeFor(
  map: string,
  needed: number,
): { readonly table: string; readonly entries: number } | undefined {
  if (/^fl_client[46]$/.test(map)) return { table: 'flows', entries: capacityOf(needed) };
  for (const [table, sizes] of Object.entries(MAPS_OF)) {
    const [none, one] = [sizes(0)[map], sizes(1)[map]];
    if (none === undefined || one === undefined) continue;
    return { table, entries: Math.ceil((needed - none) / (one - none)) };
  }
  return undefined;
}
