// SPDX-License-Identifier: Apache-2.0
// The tables that fairlead has written in this network namespace, and their end. Synchronous, so that it can run in the exit
// handler of an agent.
import { FairleadError } from '../../../errors.ts';
import { FAMILIES, type Family } from '../../../model/types.ts';
import { type RunOptions, type RunResult, runSync } from '../../../sys/exec.ts';
import { mayHaveChain, mayHaveTable } from '../../../sys/netfilter.ts';
import { OFFLOAD_TABLE, removal } from '../offload/script.ts';
import { NFT_FAMILY, SERVICES, TABLE } from '../rules/names.ts';
import { failureOf } from '../state/failure.ts';

export interface WrittenTable {
  /** `ip fairlead of nftables` */
  readonly table: string;
  readonly chains: number;
}

export type RunSync = (program: string, args: readonly string[], options?: RunOptions) => RunResult;

const tableName = (family: Family): string => `${NFT_FAMILY[family]} ${TABLE}`;

/** Asks the kernel, and runs no program. */
export const familiesWithTable = (): readonly Family[] =>
  FAMILIES.filter((family) => mayHaveTable(family, TABLE));

/** New connections meet its rules: it is more than what is kept for connections. */
export const isTableServing = (family: Family): boolean => mayHaveChain(family, TABLE, SERVICES);

/** The table of the flowtable: connections go on without it. */
export const hasOffload = (): boolean => mayHaveTable('inet', OFFLOAD_TABLE);

/** Where nft cannot list one, it has 0 chains. */
export const listTables = (
  runProgram: RunSync = runSync,
  families = familiesWithTable(),
  isOffloading = hasOffload(),
): readonly WrittenTable[] =>
  [...families.map(tableName), ...(isOffloading ? [`inet ${OFFLOAD_TABLE}`] : [])].map((table) => {
    const { stdout } = runProgram('nft', ['--terse', 'list', 'table', ...table.split(' ')]);
    const chains = stdout.match(/^\tchain /gm)?.length ?? 0;
    return { table: `${table} of nftables`, chains };
  });

/** @returns what it has removed. Throws RESTORE_FAILED. */
export function removeTables(
  runProgram: RunSync = runSync,
  families = familiesWithTable(),
  isOffloading = hasOffload(),
): readonly WrittenTable[] {
  if (families.length === 0 && !isOffloading) return [];
  const found = listTables(runProgram, families, isOffloading);
  const script = [
    ...families.map((family) => `delete table ${tableName(family)}\n`),
    ...(isOffloading ? removal().map((line) => `${line}\n`) : []),
  ].join('');
  const result = runProgram('nft', ['-f', '-'], { stdin: script });
  if (result.code !== 0)
    throw new FairleadError('RESTORE_FAILED', failureOf(script, result).reason);
  return found;
}
