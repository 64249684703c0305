// SPDX-License-Identifier: Apache-2.0
// The nftables dataplane over tables in memory: everything but the kernel, nft and the agent's own messages.
import { NFTABLES } from '../../../../src/engines/capabilities.ts';
import type { Dataplane } from '../../../../src/engines/dataplane.ts';
import {
  createNftablesDataplane,
  type NftablesParts,
} from '../../../../src/engines/nftables/kernel/dataplane.ts';
import { familyTable } from '../../../../src/engines/nftables/kernel/family-table.ts';
import { createRenderer } from '../../../../src/engines/nftables/rows/render.ts';
import { FAMILIES } from '../../../../src/model/types.ts';
import { SYSTEM_CLOCK } from '../../../../src/sys/clock.ts';
import { DEFAULTS } from '../transactions.ts';
import { type MemoryNft, memoryNft } from './nft.ts';

export interface MemoryNftables {
  readonly dataplane: Dataplane;
  readonly IPv4: MemoryNft;
  readonly IPv6: MemoryNft;
}

/** Unless a test has other parts, it never waits and never looks whether the table is there. */
export function memoryNftables(
  parts: Partial<NftablesParts> = {},
  nfts = { IPv4: memoryNft('IPv4'), IPv6: memoryNft('IPv6') },
): MemoryNftables {
  const dataplane = createNftablesDataplane({
    capabilities: NFTABLES,
    installation: { hooks: [], refusesWith: 'ECONNREFUSED', refused: [] },
    tables: FAMILIES.map((family) => familyTable(family, nfts[family])),
    renderer: createRenderer(DEFAULTS),
    clock: { ...SYSTEM_CLOCK, after: () => () => undefined },
    ...{ minSyncPeriodMs: 0, syncPeriodMs: 30_000 },
    generation: () => undefined,
    close: () => undefined,
    log: { warn: () => undefined },
    ...parts,
  });
  return { dataplane, ...nfts };
}
