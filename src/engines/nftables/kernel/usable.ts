// SPDX-License-Identifier: Apache-2.0
// Whether nft and the kernel take the table of each family: `nft --check` asks the kernel for all that the table needs and
// changes nothing.
import { FAMILIES, type Family } from '../../../model/types.ts';
import { run } from '../../../sys/exec.ts';
import { failureOf } from '../state/failure.ts';
import { trialScript } from '../state/trial.ts';
import type { RunProgram } from './nft.ts';

export interface Usable {
  readonly usable: readonly Family[];
  readonly missing: readonly { readonly family: Family; readonly reason: string }[];
}

export async function usableFamilies(runProgram: RunProgram = run): Promise<Usable> {
  const tried = await Promise.all(
    FAMILIES.map(async (family) => {
      const script = trialScript(family);
      const result = await runProgram('nft', ['--check', '-f', '-'], { stdin: script });
      return { family, reason: result.code === 0 ? undefined : failureOf(script, result).reason };
    }),
  );
  return {
    usable: tried.flatMap(({ family, reason }) => (reason === undefined ? [family] : [])),
    missing: tried.flatMap(({ family, reason }) =>
      reason === undefined ? [] : [{ family, reason }],
    ),
  };
}
