// SPDX-License-Identifier: Apache-2.0
// The nftables dataplane of the node: for which families, and one agent at a time. Throws FairleadError; nothing is written
// of Services before the first sync.
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
import { openOffload } from './offload.ts';
import { usableFamilies } from './usable.ts';

export interface NftablesSettings extends Pick<RenderSettings, 'masqueradeBit'> {
  /** On the rules of this network namespace, whichever engine writes them. */
  readonly lock: { close(): void };
  readonly minSyncPeriodMs: number;
  readonly syncPeriodMs: number;
  /** --nftables-offload */
  readonly offload: readonly string[];
}

export async function openNftablesDataplane(
  { lock, masqueradeBit, offload, ...periods }: NftablesSettings,
  log: Logger,
): Promise<Dataplane> {
  const sockets = FAMILIES.map((family) => ({ family, ...createNftSocket() }));
  const generation = createGenerationReader();
  let closeOffload: () => void = () => undefined;
  // Whoever has the lock next finds what is written, not what is being written.
  const close = (): void => {
    closeOffload();
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
    const offloading = await openOffload(offload, periods.syncPeriodMs, log);
    closeOffload = offloading.close;
    return createNftablesDataplane({
      capabilities: { ...nftablesCapabilities(families), offload: offloading.state },
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
      // Its transactions are steps of the kernel's generation, too, and none of them changes what Services have.
      generation: () => {
        const now = generation.read();
        return now === undefined ? undefined : now - offloading.transactions();
      },
      close,
      log,
    });
  } catch (error) {
    close();
    throw error;
  }
}
