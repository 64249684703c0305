// SPDX-License-Identifier: Apache-2.0
// Removes the rules that fairlead has written in this network namespace, whichever iptables it has used. Synchronous,
// so that it can run in the exit handler of an agent. Rules of a kube-proxy are left alone.
import { FairleadError } from '../../../errors.ts';
import { FAMILIES, type Family } from '../../../model/types.ts';
import { type RunOptions, type RunResult, runSync } from '../../../sys/exec.ts';
import { isWrittenByUs, type Removal, removalInput, removals } from '../diff/remove.ts';
import { heldTables } from '../diff/text.ts';
import { restoreFailure } from './failure.ts';
import { findLockHolder } from './lock-holder.ts';
import { LOCK_WAIT_SECONDS, programName, RESTORE_ARGUMENTS } from './tools.ts';
import type { Variant } from './variant.ts';

/** Rules of one family and table. */
export interface RulesPart {
  /** `nat of iptables-nft`: 12 chains, 3 jumps. */
  readonly table: string;
  readonly chains: number;
  readonly jumps: number;
}

export type RunSync = (program: string, args: readonly string[], options?: RunOptions) => RunResult;

interface Found {
  readonly family: Family;
  readonly variant: Variant;
  readonly removals: readonly Removal[];
}

export const listRules = (runProgram: RunSync = runSync): readonly RulesPart[] =>
  findRules(runProgram).flatMap(partsOf);

/** @returns what it has removed. Throws RESTORE_FAILED. */
export function removeRules(runProgram: RunSync = runSync): readonly RulesPart[] {
  return findRules(runProgram).flatMap((found) => {
    remove(found, runProgram);
    return partsOf(found);
  });
}

/** Of each list of rules that this machine has; both may have been used, one after the other. */
function findRules(runProgram: RunSync): readonly Found[] {
  const pairs = FAMILIES.flatMap((family) =>
    (['nft', 'legacy'] as const).map((variant) => ({ family, variant })),
  );
  return pairs.flatMap(({ family, variant }): readonly Found[] => {
    const { code, stdout } = runProgram(programName(family, variant, 'save'), []);
    if (code !== 0) return [];
    const held = heldTables(stdout);
    return isWrittenByUs(held) ? [{ family, variant, removals: removals(held) }] : [];
  });
}

const partsOf = ({ family, variant, removals: found }: Found): readonly RulesPart[] =>
  found.map(({ table, chains, jumps }) => ({
    table: `${table} of ${programName(family, variant)}`,
    chains: chains.length,
    jumps: jumps.length,
  }));

function remove({ family, variant, removals: found }: Found, runProgram: RunSync): void {
  const program = programName(family, variant, 'restore');
  const input = removalInput(found);
  const result = runProgram(program, RESTORE_ARGUMENTS, { stdin: input });
  if (result.code === 0) return;
  const waited = { waitSeconds: LOCK_WAIT_SECONDS, lockHolder: findLockHolder };
  const { reason } = restoreFailure({ program, input, result, ...waited });
  throw new FairleadError('RESTORE_FAILED', reason);
}
