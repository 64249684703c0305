// SPDX-License-Identifier: Apache-2.0
// nft(8), for one family. What it is given is one transaction: it takes effect as a whole or not at all.
import { FairleadError } from '../../../errors.ts';
import type { Family } from '../../../model/types.ts';
import { type RunOptions, type RunResult, run } from '../../../sys/exec.ts';
import { NFT_FAMILY, TABLE } from '../rules/names.ts';
import { type Failure, failureOf } from '../state/failure.ts';

export type RunProgram = (
  program: string,
  args: readonly string[],
  options?: RunOptions,
) => Promise<RunResult>;

export interface Nft {
  /** What the table is; '' if there is none. Throws RESTORE_FAILED. */
  list(): Promise<string>;
  /** @returns undefined if everything is written, else what failed */
  write(script: string): Promise<Failure | undefined>;
}

/** One that outlived its agent would overwrite what the next one has written. */
const LONG: RunOptions = { timeoutMs: 300_000, endsWithUs: true };

export function nftOf(family: Family, runProgram: RunProgram = run): Nft {
  return {
    async list() {
      // Priorities as numbers: their names differ from hook to hook.
      const args = ['-y', 'list', 'table', NFT_FAMILY[family], TABLE];
      const result = await runProgram('nft', args, LONG);
      if (result.code === 0) return result.stdout;
      if (/No such file or directory/.test(result.stderr)) return '';
      throw new FairleadError('RESTORE_FAILED', failureOf('', result).reason);
    },
    async write(script) {
      const result = await runProgram('nft', ['-f', '-'], { ...LONG, stdin: script });
      return result.code === 0 ? undefined : failureOf(script, result);
    },
  };
}
