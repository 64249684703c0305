// SPDX-License-Identifier: Apache-2.0
// Taking ids and lines for one service port so that all of it can be given back, and the error that
// says which table had none left. Floor 3a.
import type { Ledger, PortRecord } from './ledger.ts';

/** Which table is full, in the words of the flag that sizes it. */
export class TableFull extends Error {
  constructor(table: string, capacity: number, flag: string) {
    super(
      `${table} is full (${capacity} ${flag}): raise --map-size ${flag}=… or remove Services; the old state stays in the kernel`,
    );
  }
}

export interface Taking {
  readonly ledger: Ledger;
  readonly record: PortRecord;
  readonly undos: (() => void)[];
}
