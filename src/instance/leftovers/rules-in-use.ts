// SPDX-License-Identifier: Apache-2.0
// What translates addresses, or drops packets, in this network namespace already. Asks the kernel and runs no program, because
// a start waits for it. Programs are run for what may serve in place of eBPF.

import type { FoundTools } from '../../engines/iptables/kernel/find.ts';
import { OF_FAIRLEAD } from '../../engines/kube-proxy/chains.ts';
import { isTableServing } from '../../engines/nftables/kernel/cleanup.ts';
import { FairleadError, reasonOf } from '../../errors.ts';
import { FAMILIES, type Family } from '../../model/types.ts';
import {
  type ChosenRules,
  chooseRules,
  type RulesEngine,
  type RulesInUse,
  reasonForIptables,
  type Works,
} from '../../probe/rules-choice.ts';
import { hasLegacyTable, isDropping, mayHaveChain, mayHaveTable } from '../../sys/netfilter.ts';

export const rulesInUse = (): RulesInUse => ({
  own: engineWhere(hasOwnRules, FAMILIES.some(isTableServing)),
  kubeProxy: engineWhere(hasProxyRules, FAMILIES.some(hasProxyTable)),
  hasLegacyNat: FAMILIES.some((family) => hasLegacyTable(family, 'nat')),
  isFiltered: FAMILIES.some((family) => isDropping(family, 'filter', 'FORWARD')),
});

const hasOwnRules = (family: Family): boolean => mayHaveChain(family, 'nat', OF_FAIRLEAD);
const hasProxyRules = (family: Family): boolean =>
  mayHaveChain(family, 'nat', 'KUBE-SERVICES') && !hasOwnRules(family);
const hasProxyTable = (family: Family): boolean => mayHaveTable(family, 'kube-proxy');

function engineWhere(
  hasRules: (family: Family) => boolean,
  hasTable: boolean,
): RulesEngine | undefined {
  if (FAMILIES.some(hasRules)) return 'iptables';
  return hasTable ? 'nftables' : undefined;
}

interface RulesThatWork {
  readonly chosen: ChosenRules;
  /** undefined: iptables was not asked. */
  readonly found?: FoundTools | undefined;
}

/** Tries both engines, but iptables only if it matters. Throws NO_IPTABLES: neither works. */
export async function rulesThatWork(inUse: RulesInUse): Promise<RulesThatWork> {
  const nftables = await nftablesWorks();
  const isPlain = reasonForIptables(inUse) === undefined && !('reason' in nftables);
  if (isPlain && nftables.length === FAMILIES.length) {
    return { chosen: { engine: 'nftables', why: [] } };
  }
  const found = await toolsFound();
  const iptables = 'reason' in found ? found : [...found.families.keys()];
  const chosen = chooseRules(inUse, { iptables, nftables });
  if (chosen !== undefined) {
    return { chosen, found: 'reason' in found ? undefined : found };
  }
  const reasons = [iptables, nftables].flatMap((one) => ('reason' in one ? [one.reason] : []));
  throw new FairleadError('NO_IPTABLES', reasons.join('; '));
}

async function nftablesWorks(): Promise<Works> {
  const { usableFamilies } = await import('../../engines/nftables/kernel/usable.ts');
  const { usable, missing } = await usableFamilies();
  if (usable.includes('IPv4')) return usable;
  return { reason: `nftables does not work on this node: ${missing[0]?.reason}` };
}

async function toolsFound(): Promise<FoundTools | { readonly reason: string }> {
  const { findTools } = await import('../../engines/iptables/kernel/find.ts');
  try {
    return await findTools();
  } catch (error) {
    return { reason: reasonOf(error) };
  }
}
