// SPDX-License-Identifier: Apache-2.0
// The iptables dataplane of the node: which iptables is in use, for which families, and one agent at a time. Throws
// FairleadError; nothing is written before the first sync.
import type { Logger } from '../../../log.ts';
import type { Family } from '../../../model/types.ts';
import { SYSTEM_CLOCK } from '../../../sys/clock.ts';
import { endTied, prepareTied } from '../../../sys/exec.ts';
import { isTcpLiberal, rulesGeneration } from '../../../sys/netfilter.ts';
import { iptablesCapabilities } from '../../capabilities.ts';
import type { Dataplane } from '../../dataplane.ts';
import type { Installation } from '../../snapshot.ts';
import { createRenderer } from '../rows/render.ts';
import type { RenderSettings } from '../rows/settings.ts';
import { maxClients } from './affinity/lists.ts';
import { createIptablesDataplane } from './dataplane.ts';
import { type FamilyRules, familyRules } from './family-rules.ts';
import { type FoundTools, findTools } from './find.ts';
import { lockRules, type RulesHolder } from './instance-lock.ts';
import { createOtherVariant } from './other-variant.ts';
import { CHAINS_AT_ONCE } from './variant.ts';

export interface IptablesSettings
  extends Pick<RenderSettings, 'masqueradeBit' | 'hasLocalhostNodePorts'> {
  readonly holder: RulesHolder;
  readonly minSyncPeriodMs: number;
  readonly syncPeriodMs: number;
}

/** @param found what findTools() has found, if it has just been asked */
export async function openIptablesDataplane(
  { holder, minSyncPeriodMs, syncPeriodMs, ...render }: IptablesSettings,
  log: Logger,
  found?: FoundTools,
): Promise<Dataplane> {
  const lock = await lockRules(holder);
  // Whoever has the lock next finds what is written, not what is being written.
  const close = (): void => {
    endTied();
    lock.close();
  };
  if (lock.warning !== undefined)
    log.warn({ reason: lock.warning }, 'another process has the name of the lock on the rules');
  try {
    prepareTied();
    const tools = found ?? (await findTools());
    log.info({ variant: tools.variant, why: tools.why }, 'iptables chosen');
    for (const { family, reason } of tools.missing) {
      log.warn({ family, reason }, 'no iptables for this family, its Services are not served');
    }
    const renderer = createRenderer({
      ...render,
      hasRandomFully: true,
      isTcpLiberal: isTcpLiberal(),
      accounting: [],
    });
    return createIptablesDataplane({
      capabilities: iptablesCapabilities([...tools.families.keys()], maxClients()),
      installation: installationOf(tools),
      families: familiesOf(tools),
      render: renderer.render,
      clock: SYSTEM_CLOCK,
      ...{ minSyncPeriodMs, syncPeriodMs, log },
      generation: tools.variant === 'nft' ? rulesGeneration : () => undefined,
      otherVariant: createOtherVariant({ variant: tools.variant, clock: SYSTEM_CLOCK, log }),
      close,
    });
  } catch (error) {
    close();
    throw error;
  }
}

const familiesOf = ({ variant, families }: FoundTools): ReadonlyMap<Family, FamilyRules> =>
  new Map(
    [...families].map(([family, tools]) => [family, familyRules(tools, CHAINS_AT_ONCE[variant])]),
  );

const installationOf = ({ variant, why, families }: FoundTools): Installation => ({
  hooks: [],
  refusesWith: 'ECONNREFUSED',
  iptables: { variant, why, families: [...families.keys()] },
  refused: [],
});
