// SPDX-License-Identifier: Apache-2.0
// The ids and blocks that an update of one service port allocates and the backends it changes, so that all of
// it can be undone, and the error that names the table that is full.
import { fullMapText, fullText } from '../failure.ts';
import type { Ledger, PortRecord } from '../ledger.ts';
import type { IdPool } from './id-pool.ts';

/** Which table is full, by the name that --map-size has for it. */
export class TableFull extends Error {
  readonly map: string;
  /** The message without what becomes of it. */
  readonly fullMap: string;

  constructor(map: string, capacity: number, flag: string) {
    super(fullText(map, flag, capacity));
    this.map = map;
    this.fullMap = fullMapText(map, flag, capacity);
  }
}

export interface Allocation {
  readonly ledger: Ledger;
  readonly record: PortRecord;
  readonly undos: (() => void)[];
}

export function undoAll(undos: (() => void)[]): void {
  for (const undo of undos.reverse()) undo();
  undos.length = 0;
}

/** Throws TableFull, in the words of `table` and `flag`. */
export function allocateId(
  pool: IdPool,
  { undos }: Pick<Allocation, 'undos'>,
  table: string,
  flag: string,
): number {
  const id = pool.take();
  if (id === undefined) throw new TableFull(table, pool.capacity, flag);
  undos.push(() => pool.give(id));
  return id;
}
