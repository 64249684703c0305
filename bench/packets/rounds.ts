// SPDX-License-Identifier: Apache-2.0
// Rounds in which every column has its turn at every workload, so that what else the machine does hits all alike. The
// order of columns rotates: none is always the one after the most expensive.
import type { ColumnSite } from '../../tools/lab/columns/site.ts';
import type { Sample, Traffic } from '../../tools/lab/columns/traffic.ts';
import { turns } from '../../tools/lab/columns/turns.ts';
import type { ColumnName, Samples } from './report/figures.ts';
import { destination } from './site/traffic.ts';
import type { Workload } from './workloads.ts';

/** A column of the run, with its traffic. */
export interface Column {
  readonly name: ColumnName;
  readonly site: ColumnSite;
  readonly traffic: Traffic;
}

/** Without programs that translate, no NodePort leads anywhere: the same traffic goes to the pod. */
export const isUntranslated = (name: ColumnName): boolean => name === 'plain' || name === 'empty';

export const measureOnce = (
  { name, site, traffic }: Column,
  { call, backend, isDirect, amount }: Workload,
): Promise<Sample> =>
  traffic.measure(call, destination(site, backend, isDirect || isUntranslated(name)), amount);

/** @param scale of the amounts of each sample */
export async function measureRounds(
  columns: readonly Column[],
  workloads: readonly Workload[],
  { rounds, scale }: { readonly rounds: number; readonly scale: number },
): Promise<Samples> {
  const samples = Object.fromEntries(
    workloads.map(({ name }) => [
      name,
      Object.fromEntries(columns.map((column) => [column.name, [] as Sample[]])),
    ]),
  );
  for (let round = -1; round < rounds; round += 1) {
    for (const workload of workloads) {
      const scaled = { ...workload, amount: Math.ceil(workload.amount * scale) };
      for (const column of turns(columns, round + 1)) {
        const sample = await measureOnce(column, scaled);
        // The first round fills caches, neighbours and sockets.
        if (round >= 0) samples[workload.name]?.[column.name]?.push(sample);
      }
    }
  }
  return samples;
}
