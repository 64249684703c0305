// SPDX-License-Identifier: Apache-2.0
// The nftables dataplane of the node: for which families, and one agent at a time. Throws FairleadError; nothing is written
// before the first sync.
import { FairleadError } from '../../../errors.ts';
import type { Logger } from '../../../log.ts';
import { FAMILIES } from '../../../model/types.ts';
import { SYSTEM_CLOCK } from '../../../sys/clock.ts';
import { endTied, prepareTied } from '../../../sys/exec.ts';
import { createGenerationReader, isTcpLiberal } from '../../../sys/netfilter.ts';
import { createNftSocket } from '../../../sys/netlink/nft/batch.ts';
import { nftablesCapabilities } from '../../capabilities.ts';
import type { Dataplane } from '../../dataplane.ts';
import { createRenderer, type RenderSettings } from '../rows/render.ts';
import { createNftablesDataplane } from './dataplane.ts';
import { familyTable } from './family-table.ts';
import { nftOf } from './nft.ts';
import { usableFamilies } from './usable.ts';

export interface NftablesSettings extends Pick<RenderSettings, 'masqueradeBit'> {
  /** On the rules of this network namespace, whichever engine writes them. */
  readonly lock: { close(): void };
  readonly minSyncPeriodMs: number;
  readonly syncPeriodMs: number;
}

export async function openNftablesDataplane(
  { lock, masqueradeBit, ...periods }: NftablesSettings,
  log: Logger,
): Promise<Dataplane> {
  const sockets = FAMILIES.map((family) => ({ family, ...createNftSocket() }));
  const generation = createGenerationReader();
  // Whoever has the lock next finds what is written, not what is being written.
  const close = (): void => {
    endTied();
    for (const socket of [generation, ...sockets]) socket.close();
    lock.close();
  };
  try {
    prepareTied();
    const { usable, missing } = await usableFamilies();
    const [reason] = missing.map((one) => one.reason);
    if (!usable.includes('IPv4')) {
      throw new FairleadError('NO_NFTABLES', `nftables does not work on this node: ${reason}`);
    }
    for (const one of missing)
      log.warn({ ...one }, 'no nftables for this family, its Services are not served');
    const families = FAMILIES.filter((family) => usable.includes(family));
    return createNftablesDataplane({
      capabilities: nftablesCapabilities(families),
      installation: {
        hooks: [],
        refusesWith: 'ECONNREFUSED',
        nftables: { families },
        refused: [],
      },
      tables: sockets
        .filter(({ family }) => usable.includes(family))
        .map(({ family, send }) => familyTable(family, nftOf(family), send)),
      renderer: createRenderer({ masqueradeBit, isTcpLiberal: isTcpLiberal() }),
      clock: SYSTEM_CLOCK,
      ...periods,
      generation: generation.read,
      close,
      log,
    });
  } catch (error) {
    close();
    throw error;
  }
}
