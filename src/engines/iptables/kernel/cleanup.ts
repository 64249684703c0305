// SPDX-License-Identifier: Apache-2.0
// Removes the rules that fairlead has written in this network namespace, whichever iptables it has used. Synchronous,
// so that it can run in the exit handler of an agent. Rules of a kube-proxy are left alone.
import { readFileSync } from 'node:fs';
import { FairleadError } from '../../../errors.ts';
import { FAMILIES, type Family } from '../../../model/types.ts';
import { type RunOptions, type RunResult, runSync } from '../../../sys/exec.ts';
import { ownLeftovers } from '../../kube-proxy/own-leftovers.ts';
import { type RuleLeftovers, ruleRemoval } from '../../kube-proxy/rules.ts';
import { heldTables } from '../state/diff/text.ts';
import { restoreFailure } from './failure.ts';
import { findLockHolder } from './lock-holder.ts';
import { LOCK_WAIT_SECONDS, LONG_MS, programName, RESTORE_ARGUMENTS } from './tools.ts';
import { CHAINS_AT_ONCE, type Variant } from './variant.ts';

/** Rules of one family and table. */
export interface RulesPart {
  /** `nat of iptables-nft`: 12 chains, 3 jumps. */
  readonly table: string;
  readonly chains: number;
  readonly jumps: number;
}

export interface WrittenRules {
  readonly parts: readonly RulesPart[];
  /** What has to stay because rules of others need it: `nat KUBE-MARK-MASQ of iptables-nft: a rule of X needs it: …`. */
  readonly kept: readonly string[];
}

export type RunSync = (program: string, args: readonly string[], options?: RunOptions) => RunResult;

interface Found {
  readonly family: Family;
  readonly variant: Variant;
  readonly leftovers: RuleLeftovers;
}

export const listRules = (runProgram: RunSync = runSync): WrittenRules =>
  writtenRules(findRules(runProgram));

/** @returns what it has removed. Throws RESTORE_FAILED. */
export function removeRules(runProgram: RunSync = runSync): WrittenRules {
  const found = findRules(runProgram);
  for (const one of found) remove(one, runProgram);
  return writtenRules(found);
}

/** Of each list of rules that this machine has; both may have been used, one after the other. */
function findRules(runProgram: RunSync): readonly Found[] {
  const pairs = FAMILIES.flatMap((family) =>
    (['nft', 'legacy'] as const).map((variant) => ({ family, variant })),
  );
  const guard = { isGuardNeeded: isLoopbackRouted() };
  return pairs.flatMap(({ family, variant }): readonly Found[] => {
    const { code, stdout } = runProgram(programName(family, variant, 'save'), []);
    if (code !== 0) return [];
    return [{ family, variant, leftovers: ownLeftovers(heldTables(stdout), guard) }];
  });
}

function isLoopbackRouted(): boolean {
  try {
    return readFileSync('/proc/sys/net/ipv4/conf/all/route_localnet', 'utf8').trim() !== '0';
  } catch {
    return true;
  }
}

const writtenRules = (found: readonly Found[]): WrittenRules => ({
  parts: found.flatMap(({ family, variant, leftovers }) =>
    leftovers.tables.map(({ name, chains, jumps }) => ({
      table: `${name} of ${programName(family, variant)}`,
      chains: chains.length,
      jumps: jumps.length,
    })),
  ),
  kept: found.flatMap(({ family, variant, leftovers }) =>
    leftovers.kept.map(
      ({ what, reason }) => `${what} of ${programName(family, variant)}: ${reason}`,
    ),
  ),
});

function remove({ family, variant, leftovers }: Found, runProgram: RunSync): void {
  const input = ruleRemoval(leftovers, CHAINS_AT_ONCE[variant]);
  if (input === '') return;
  const program = programName(family, variant, 'restore');
  const result = runProgram(program, RESTORE_ARGUMENTS, { stdin: input, timeoutMs: LONG_MS });
  if (result.code === 0) return;
  const waited = { waitSeconds: LOCK_WAIT_SECONDS, lockHolder: findLockHolder };
  const { reason } = restoreFailure({ program, input, result, ...waited });
  throw new FairleadError('RESTORE_FAILED', reason);
}
