// SPDX-License-Identifier: Apache-2.0
// iptables-save and iptables-restore of one family. A restore is one transaction for each table: it takes effect at
// COMMIT or, if a line before it fails, not at all.
import { FairleadError } from '../../../errors.ts';
import type { Family } from '../../../model/types.ts';
import { type RunOptions, type RunResult, run } from '../../../sys/exec.ts';
import type { TableName } from '../rules/types.ts';
import { type Failure, restoreFailure } from './failure.ts';
import { findLockHolder } from './lock-holder.ts';
import type { Variant } from './variant.ts';

/** How long iptables waits for the xtables lock, as kube-proxy has it; nft has no lock. */
export const LOCK_WAIT_SECONDS = 5;
const WAIT = ['-w', String(LOCK_WAIT_SECONDS)];
/** Chains that are not in the input are left alone, with their counters. */
export const RESTORE_ARGUMENTS: readonly string[] = ['--noflush', '--counters', ...WAIT];
/** Of iptables for a chain that does not exist. */
const NO_CHAIN = 1;
/**
 * A restore of 200,000 rules takes a minute on a slow machine. One that outlived its agent would overwrite what the next
 * one has written.
 */
export const LONG_MS = 300_000;
const LONG: RunOptions = { timeoutMs: LONG_MS, endsWithUs: true };

export type RunProgram = (
  program: string,
  args: readonly string[],
  options?: RunOptions,
) => Promise<RunResult>;

export interface SaveOptions {
  readonly counters?: true;
  readonly timeoutMs?: number;
  /** Who asks keeps what it needs of the text: it need not be kept for others. */
  readonly isLast?: true;
}

export interface Tools {
  /** Rules with their counters if asked. Throws if they cannot be read. */
  save(options?: SaveOptions): Promise<string>;
  /** @returns undefined if everything is written, else what failed */
  restore(input: string): Promise<Failure | undefined>;
  /** False only if it is certain that there is no such chain. */
  hasChain(table: TableName, chain: string): Promise<boolean>;
}

/** `ip6tables-nft-save`. @param variant undefined: the one that the node has under the plain name */
export const programName = (
  family: Family,
  variant: Variant | undefined,
  what?: 'save' | 'restore',
): string =>
  [family === 'IPv4' ? 'iptables' : 'ip6tables', variant, what]
    .filter((part) => part !== undefined)
    .join('-');

export function toolsOf(
  family: Family,
  variant: Variant | undefined,
  runProgram: RunProgram = run,
): Tools {
  const programs = {
    save: programName(family, variant, 'save'),
    restore: programName(family, variant, 'restore'),
    list: programName(family, variant),
  };
  const failureOf = (program: string, input: string, result: RunResult): Failure =>
    restoreFailure({
      ...{ program, input, result },
      waitSeconds: LOCK_WAIT_SECONDS,
      lockHolder: findLockHolder,
    });
  return {
    async save({ counters, timeoutMs = LONG_MS } = {}) {
      const args = counters === true ? ['-c'] : [];
      const result = await runProgram(programs.save, args, { ...LONG, timeoutMs });
      if (result.code === 0) return result.stdout;
      throw new FairleadError('RESTORE_FAILED', failureOf(programs.save, '', result).reason);
    },
    async restore(input) {
      const result = await runProgram(programs.restore, RESTORE_ARGUMENTS, {
        ...LONG,
        stdin: input,
      });
      return result.code === 0 ? undefined : failureOf(programs.restore, input, result);
    },
    async hasChain(table, chain) {
      const { code } = await runProgram(programs.list, [...WAIT, '-t', table, '-S', chain]);
      return code !== NO_CHAIN;
    },
  };
}
