// SPDX-License-Identifier: Apache-2.0
// Tries a table of one family, and a flowtable, in a network namespace of its own. Throws if it does not work.
import type { Family } from '../../../model/types.ts';
import type { ProbeSandbox } from '../../../sys/probe-sandbox.ts';
import { offloadProblem } from './offload.ts';
import { usableFamilies } from './usable.ts';

export async function tryTable(family: Family, sandbox: ProbeSandbox): Promise<void> {
  sandbox.network();
  const { missing } = await usableFamilies();
  const found = missing.find((one) => one.family === family);
  if (found !== undefined) throw new Error(found.reason);
}

export async function tryFlowtable(sandbox: ProbeSandbox): Promise<void> {
  sandbox.network();
  const reason = await offloadProblem();
  if (reason !== undefined) throw new Error(reason);
}
