// SPDX-License-Identifier: Apache-2.0
// Rules that an earlier agent has written with the other iptables: the kernel follows both lists, so that they would send
// new connections to backends of long ago. They are removed when the rules of this agent serve.
import { reasonOf } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Logger } from '../../../log.ts';
import { FAMILIES, type Family } from '../../../model/types.ts';
import { run } from '../../../sys/exec.ts';
import { hasLegacyTable, mayHaveChain } from '../../../sys/netfilter.ts';
import type { FailedEntry } from '../../dataplane.ts';
import { OF_FAIRLEAD } from '../../kube-proxy/chains.ts';
import { ownLeftovers } from '../../kube-proxy/own-leftovers.ts';
import { ownerOf } from '../../kube-proxy/own-rules.ts';
import { ruleRemoval } from '../../kube-proxy/rules.ts';
import type { TableName } from '../rules/types.ts';
import { heldTables } from '../state/diff/text.ts';
import { missingText } from './failure.ts';
import { programName, type RunProgram, toolsOf } from './tools.ts';
import { CHAINS_AT_ONCE, type Variant } from './variant.ts';

export interface OtherVariant {
  /**
   * To be called when everything is written. What failed is retried after a while, and reported until then.
   * @param isDue all of it is to be looked for, as at a start or in an audit
   */
  remove(isDue: boolean): Promise<readonly FailedEntry[]>;
}

export interface OtherVariantParts {
  /** Of this agent's rules. */
  readonly variant: Variant;
  readonly clock: Pick<Clock, 'monotonicMs'>;
  readonly log: Pick<Logger, 'info'>;
  readonly runProgram?: RunProgram;
  readonly mayHave?: (family: Family, variant: Variant) => boolean;
}

const RETRY_MS = 30_000;

export function createOtherVariant(parts: OtherVariantParts): OtherVariant {
  const { clock } = parts;
  let failed: readonly FailedEntry[] = [];
  let notBeforeMs = 0;
  return {
    async remove(isDue) {
      const isRetry = failed.length > 0 && clock.monotonicMs() >= notBeforeMs;
      if (!isDue && !isRetry) return failed;
      const found = await Promise.all(FAMILIES.map((family) => removeIn(family, parts)));
      failed = found.flatMap((one) => one ?? []);
      notBeforeMs = clock.monotonicMs() + RETRY_MS;
      return failed;
    },
  };
}

/** Asks the kernel first, which takes no time: most nodes have only one of them. */
async function removeIn(
  family: Family,
  parts: OtherVariantParts,
): Promise<FailedEntry | undefined> {
  const { variant, runProgram = run, mayHave = mayHaveRules, log } = parts;
  const other = variant === 'nft' ? 'legacy' : 'nft';
  if (!mayHave(family, other)) return undefined;
  const tools = toolsOf(family, other, runProgram);
  try {
    const held = heldTables(await tools.save());
    if (ownerOf(held) === 'other') return undefined;
    const found = ownLeftovers(held, { isGuardNeeded: false });
    const failure = await tools.restore(ruleRemoval(found, CHAINS_AT_ONCE[other]));
    if (failure !== undefined) return failedEntry(family, other, failure.reason);
    const chains = found.tables.reduce((sum, table) => sum + table.chains.length, 0);
    log.info({ family, variant: other, chains }, 'rules of an earlier agent removed');
    return undefined;
  } catch (error) {
    const reason = reasonOf(error);
    // Of legacy it is only known that there are rules, of whomever.
    const isUnknown = reason === missingText(programName(family, other, 'save'));
    return isUnknown && other === 'legacy' ? undefined : failedEntry(family, other, reason);
  }
}

const TABLES: readonly TableName[] = ['filter', 'nat'];

const mayHaveRules = (family: Family, variant: Variant): boolean =>
  TABLES.some((table) =>
    variant === 'nft' ? mayHaveChain(family, table, OF_FAIRLEAD) : hasLegacyTable(family, table),
  );

const failedEntry = (family: Family, variant: Variant, reason: string): FailedEntry => ({
  id: { kind: 'chain', family, table: 'nat', chain: 'KUBE-SERVICES' },
  text: `rules of an earlier agent in ${programName(family, variant)}`,
  code: 'WRITE_FAILED',
  reason: `they may still serve, and cannot be removed: ${reason}`,
});
