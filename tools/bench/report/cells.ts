// SPDX-License-Identifier: Apache-2.0
// A size's samples as rows of cells, from which text, Markdown and HTML are made. Pure.
import { METRIC_NAMES, type MetricName } from './metrics.ts';
import { type Comparison, compare, type Estimate, estimateOf, valuesOf } from './statistics.ts';
import type { ColumnName, Samples } from './types.ts';

export interface Cell {
  readonly column: ColumnName;
  readonly value: Estimate;
  /** To the row's reference; undefined for the reference itself. */
  readonly comparison?: Comparison;
}

export interface Row {
  readonly metric: MetricName;
  /** What ratios of this row are to. */
  readonly reference: ColumnName | undefined;
  /** One for each column, undefined where nothing was measured. */
  readonly cells: readonly (Cell | undefined)[];
}

/** The first of these that was measured: people ask what changes when they replace kube-proxy. */
const REFERENCES: readonly ColumnName[] = [
  'kube-proxy-iptables',
  'kube-proxy-nftables',
  'none',
  'fairlead-iptables',
  'fairlead-nftables',
  'fairlead-userspace',
];

export function rowsOf(samples: Samples, columns: readonly ColumnName[]): readonly Row[] {
  return METRIC_NAMES.flatMap((metric) => {
    const row = samples[metric];
    return row === undefined ? [] : [rowOf(metric, row, columns)];
  });
}

function rowOf(
  metric: MetricName,
  row: NonNullable<Samples[MetricName]>,
  columns: readonly ColumnName[],
): Row {
  const seriesOf = (name: ColumnName) => row[name] ?? [];
  const reference = REFERENCES.find(
    (name) => columns.includes(name) && valuesOf(seriesOf(name)).length > 0,
  );
  const cells = columns.map((column): Cell | undefined => {
    const value = estimateOf(valuesOf(seriesOf(column)));
    if (value === undefined) return undefined;
    const isReference = reference === undefined || column === reference;
    const comparison = isReference ? undefined : compare(seriesOf(column), seriesOf(reference));
    return { column, value, ...(comparison && { comparison }) };
  });
  return { metric, reference, cells };
}
