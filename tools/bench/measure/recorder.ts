// SPDX-License-Identifier: Apache-2.0
// Collects the values of a size, and what its cells have to be read with.
import type { MetricName } from '../report/metrics.ts';
import { COLUMN_LABELS, type ColumnName, type Samples } from '../report/types.ts';

/** From this share on, a note tells of what was lost or sent again. */
const TELLING_SHARE = 0.001;

export class Recorder {
  readonly #values = new Map<MetricName, Map<ColumnName, (number | null)[]>>();
  readonly #sent = new Map<string, { units: number; bad: number }>();
  readonly #notes = new Set<string>();

  add(metric: MetricName, column: ColumnName, value: number | null): void {
    const row = this.#values.get(metric) ?? new Map<ColumnName, (number | null)[]>();
    this.#values.set(metric, row);
    const series = row.get(column) ?? [];
    row.set(column, series);
    series.push(value);
  }

  /** @param what as in `new connections, NodePort` */
  countBad(column: ColumnName, what: string, counts: { units: number; bad: number }): void {
    const key = `${COLUMN_LABELS[column]}: ${what}`;
    const sum = this.#sent.get(key) ?? { units: 0, bad: 0 };
    this.#sent.set(key, { units: sum.units + counts.units, bad: sum.bad + counts.bad });
  }

  note(column: ColumnName, text: string): void {
    this.tell(`${COLUMN_LABELS[column]}: ${text}.`);
  }

  tell(note: string): void {
    this.#notes.add(note);
  }

  get samples(): Samples {
    const rows = [...this.#values].map(([metric, row]) => [metric, Object.fromEntries(row)]);
    return Object.fromEntries(rows);
  }

  get notes(): readonly string[] {
    const shares = [...this.#sent].flatMap(([what, { units, bad }]) => {
      const share = bad / Math.max(1, units);
      return share < TELLING_SHARE ? [] : [`${what}: ${(100 * share).toFixed(1)} %.`];
    });
    return [...this.#notes, ...shares];
  }
}
