// SPDX-License-Identifier: Apache-2.0
// A report from its JSON text. What no run of this version can have written is refused, with the field.
import { z } from 'zod';
import { FairleadError } from '../../../src/errors.ts';
import { METRIC_NAMES, type MetricName } from './metrics.ts';
import { type BenchReport, COLUMNS } from './types.ts';

const column = z.enum(COLUMNS);
const series = z.array(z.number().nonnegative().nullable());
const metric = z.enum(METRIC_NAMES as [MetricName, ...MetricName[]]);
const size = z.object({
  services: z.number().int().positive(),
  samples: z.partialRecord(metric, z.partialRecord(column, series)),
  loadAfter: z.number(),
  notes: z.array(z.string()),
});
const report = z.object({
  apiVersion: z.literal('fairlead.io/v1'),
  kind: z.literal('BenchReport'),
  version: z.string(),
  date: z.string(),
  machine: z.object({
    cpu: z.string(),
    cores: z.number(),
    kernel: z.string(),
    node: z.string(),
    loadBefore: z.number(),
  }),
  iptables: z.enum(['legacy', 'nft']),
  endpointsEach: z.number(),
  columns: z.array(column),
  skipped: z.partialRecord(column, z.string()),
  sizes: z.array(size),
  roll: size.extend({ endpoints: z.number(), slices: z.number() }).exactOptional(),
});

/** @param name of the file, for the message */
export function parseReport(text: string, name: string): BenchReport {
  const refuse = (reason: string): never => {
    throw new FairleadError('BAD_OPTION', `${name} is no report of fairlead bench: ${reason}`);
  };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return refuse(error instanceof Error ? error.message : String(error));
  }
  const { success, data, error } = report.safeParse(value);
  if (success) return data;
  const [issue] = error.issues;
  return refuse(`${issue?.path.join('.') || 'the file'}: ${issue?.message}`);
}
