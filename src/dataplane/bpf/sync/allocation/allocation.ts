// SPDX-License-Identifier: Apache-2.0
// What one service port takes of ids and blocks and changes of its backends, so that all of it can be
// given back, and the error that says which table had none left.
import { fullText } from '../failure.ts';
import type { Ledger, PortRecord } from '../ledger.ts';
import type { IdPool } from './id-pool.ts';

/** Which table is full, in the words of the flag that sizes it. */
export class TableFull extends Error {
  readonly map: string;

  constructor(map: string, capacity: number, flag: string) {
    super(fullText(map, flag, capacity));
    this.map = map;
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
