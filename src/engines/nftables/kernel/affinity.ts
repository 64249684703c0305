// SPDX-License-Identifier: Apache-2.0
// Reads and writes the sets in which tables of nftables remember clients.
import { FairleadError } from '../../../errors.ts';
import { FAMILIES } from '../../../model/types.ts';
import { run } from '../../../sys/exec.ts';
import { mayHaveTable } from '../../../sys/netfilter.ts';
import type { Remembered } from '../../predecessor.ts';
import { NFT_FAMILY } from '../rules/names.ts';
import { type AffinitySets, affinityAdditions, affinitySets } from '../state/affinity.ts';
import { failureOf } from '../state/failure.ts';
import type { RunProgram } from './nft.ts';

/** Of both families; none where there is no such table. Throws RESTORE_FAILED. */
export async function affinityOfTable(
  table: string,
  runProgram: RunProgram = run,
  families = FAMILIES.filter((family) => mayHaveTable(family, table)),
): Promise<readonly AffinitySets[]> {
  return Promise.all(
    families.map(async (family) => {
      const result = await runProgram('nft', ['--json', 'list', 'sets', NFT_FAMILY[family]]);
      if (result.code !== 0)
        throw new FairleadError('RESTORE_FAILED', failureOf('', result).reason);
      return affinitySets(result.stdout, family, table);
    }),
  );
}

/** All of a family in one transaction. @returns of how many clients. Throws RESTORE_FAILED. */
export async function rememberInTable(
  table: string,
  sets: readonly AffinitySets[],
  all: readonly Remembered[],
  runProgram: RunProgram = run,
): Promise<number> {
  let count = 0;
  for (const one of sets) {
    const { script, clients } = affinityAdditions(one, table, all);
    if (clients === 0) continue;
    const result = await runProgram('nft', ['-f', '-'], { stdin: script });
    if (result.code !== 0)
      throw new FairleadError('RESTORE_FAILED', failureOf(script, result).reason);
    count += clients;
  }
  return count;
}
