// SPDX-License-Identifier: Apache-2.0
// One turn of one proxy with a Service of thousands of endpoints, all of which are replaced, slice by slice, as the
// endpoint slice controller does when a Deployment is rolled over.
import { FAR_HALVES } from '../../lab/columns/network.ts';
import { clockNs, type ProxyProcess } from '../proxies/process.ts';
import { put, type Roll, removed, rollObjects, rollSlice } from '../site/objects.ts';
import { type Column, changeObjects, clusterIpOf } from './column.ts';
import { atRate } from './rate.ts';
import { startColumn, untilIdle } from './start.ts';
import type { Turn } from './turn.ts';

export const ROLL: Roll = { endpoints: 5_000, slices: 50 };
const SLICE_PERIOD_MS = 100;
const PERIOD_US = 200;
/** With one of fifty slices still there, three in ten thousand such series would not meet it. */
const IN_A_ROW = 400;

export async function measureRoll({ column, settings, recorder }: Turn): Promise<void> {
  await changeObjects(column, rollObjects(ROLL, column.rollHalf));
  const started = await startColumn(column, settings.limitSeconds, recorder);
  const values = started && (await rollOver(column, started.process, settings.limitSeconds));
  if (started !== undefined && values === undefined) {
    recorder.note(column.name, `the last slice did not show within ${settings.limitSeconds} s`);
  }
  recorder.add('rollCpu', column.name, values?.cpuMs ?? null);
  recorder.add('rollLast', column.name, values?.lastMs ?? null);
  const { now, peak } = column.process?.residentBytes() ?? {};
  recorder.add('memory', column.name, now === undefined ? null : now / 2 ** 20);
  recorder.add('memoryPeak', column.name, peak === undefined ? null : peak / 2 ** 20);
  await changeObjects(column, rollObjects(ROLL, column.rollHalf).map(removed));
}

async function rollOver(column: Column, process: ProxyProcess, limitSeconds: number) {
  await untilIdle(process);
  const half = column.rollHalf === 0 ? 1 : 0;
  column.rollHalf = half;
  const before = process.cpuSeconds();
  await atRate({ count: ROLL.slices - 1, periodMs: SLICE_PERIOD_MS }, (number) =>
    column.api.change([put(rollSlice(ROLL, number, half))]),
  );
  const sentNs = clockNs();
  await column.api.change([put(rollSlice(ROLL, ROLL.slices - 1, half))]);
  const reached = await column.traffic.inside.reach(clusterIpOf(column, 'roll'), {
    ...{ range: FAR_HALVES[half], count: IN_A_ROW, periodUs: PERIOD_US },
    timeoutMs: limitSeconds * 1_000,
  });
  if (reached === undefined) return undefined;
  await untilIdle(process);
  const cpuMs = ((process.cpuSeconds() - before) * 1_000) / ROLL.slices;
  return { cpuMs, lastMs: Math.max(0, reached.reachedNs - sentNs) / 1e6 };
}
