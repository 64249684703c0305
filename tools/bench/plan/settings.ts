// SPDX-License-Identifier: Apache-2.0
// How much is measured: of a full run, and of a quick one. Pure.
import type { ColumnName } from '../report/types.ts';

export interface RunSettings {
  readonly columns: readonly ColumnName[];
  /** In ascending order: Services are added, never removed. */
  readonly services: readonly number[];
  /** Of traffic: in each, every column has its turn at every workload. */
  readonly rounds: number;
  /** Of start, changes and memory. */
  readonly turns: number;
  /** Of the Service that is rolled over; 0: none. */
  readonly rollTurns: number;
  /** Of the amounts of each sample of traffic. */
  readonly scale: number;
  /** Single changes in each turn. */
  readonly changes: number;
  readonly churnMs: number;
  /** Seconds after which a start, or a change, is given up. */
  readonly limitSeconds: number;
  /** Rounds of traffic after the third are left out if the run would take longer. */
  readonly budgetSeconds?: number;
}

export type Amounts = Omit<RunSettings, 'columns'>;

export const FULL: Amounts = {
  services: [100, 1_000, 5_000, 10_000],
  ...{ rounds: 15, turns: 6, rollTurns: 6, scale: 1, changes: 5, churnMs: 5_000 },
  limitSeconds: 120,
};

/** Fewer than six turns: no difference in them has a confidence of 95 %. */
export const QUICK: Amounts = {
  services: [100, 1_000],
  ...{ rounds: 6, turns: 1, rollTurns: 1, scale: 0.25, changes: 2, churnMs: 1_500 },
  ...{ limitSeconds: 60, budgetSeconds: 170 },
};
