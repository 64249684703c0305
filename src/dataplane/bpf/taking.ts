// SPDX-License-Identifier: Apache-2.0
// Taking ids and lines for one service port so that all of it can be given back, and the error that
// says which table had none left. Floor 3a.
import type { Ledger, PortRecord } from './ledger.ts';

/** Which table is full, in words. */
export class TableFull extends Error {
  readonly table: string;
  constructor(table: string, capacity: number, what: string) {
    super(
      `${table} is full (${capacity} ${what}): raise --map-size for it or remove Services; the old state stays in the kernel`,
    );
    this.table = table;
  }
}

export interface Taking {
  readonly ledger: Ledger;
  readonly record: PortRecord;
  readonly undos: (() => void)[];
}
