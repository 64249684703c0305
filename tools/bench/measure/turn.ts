// SPDX-License-Identifier: Apache-2.0
// One turn of one proxy: its start, single changes, churn, and its memory after that.
import { setTimeout as letPass } from 'node:timers/promises';
import { FAR_HALVES } from '../../lab/columns/network.ts';
import { medianOf } from '../lib/quantiles.ts';
import type { RunSettings } from '../plan/settings.ts';
import { clockNs, type ProxyProcess } from '../proxies/process.ts';
import type { MetricName } from '../report/metrics.ts';
import { otherSlice, probeSlice, put } from '../site/objects.ts';
import { type Column, clusterIpOf } from './column.ts';
import { atRate } from './rate.ts';
import type { Recorder } from './recorder.ts';
import { startColumn, untilIdle } from './start.ts';

const PERIOD_US = 1_000;
/** Longer than the shortest time between two syncs, so that a change is not delayed by the one before it. */
const BETWEEN_CHANGES_MS = 1_100;
const CHURN_PERIOD_MS = 20;
const MIB = 2 ** 20;

const METRICS_OF_TURN = [
  ...['start', 'startCpu', 'change', 'changeCpu', 'churn', 'churnCpu', 'memory', 'memoryPeak'],
] as const satisfies readonly MetricName[];

export interface Turn {
  readonly column: Column;
  readonly services: number;
  readonly settings: RunSettings;
  readonly recorder: Recorder;
}

export async function measureTurn(turn: Turn): Promise<void> {
  const { column, settings, recorder } = turn;
  const started = await startColumn(column, settings.limitSeconds, recorder);
  const values =
    started === undefined
      ? {}
      : {
          ...{ start: started.seconds, startCpu: started.cpuSeconds },
          ...(await measureStarted(turn, started.process)),
        };
  const found: Readonly<Partial<Record<MetricName, number | undefined>>> = values;
  for (const metric of METRICS_OF_TURN) recorder.add(metric, column.name, found[metric] ?? null);
}

async function measureStarted(turn: Turn, process: ProxyProcess) {
  await untilIdle(process);
  const changes = await singleChanges(turn, process);
  const churn = await measureChurn(turn, process);
  const { now, peak } = process.residentBytes();
  return { ...changes, ...churn, memory: now / MIB, memoryPeak: peak / MIB };
}

async function singleChanges({ column, settings, recorder }: Turn, process: ProxyProcess) {
  const times: number[] = [];
  let cpuSeconds = 0;
  for (let number = 0; number < settings.changes; number += 1) {
    await letPass(BETWEEN_CHANGES_MS);
    const before = process.cpuSeconds();
    const ms = await changeProbe(column, settings.limitSeconds);
    if (ms === undefined) {
      recorder.note(column.name, `a change did not show within ${settings.limitSeconds} s`);
      return {};
    }
    await untilIdle(process);
    times.push(ms);
    cpuSeconds += process.cpuSeconds() - before;
  }
  if (times.length === 0) return {};
  return { change: medianOf(times), changeCpu: (cpuSeconds * 1_000) / times.length };
}

/** From the order to the API server until the first connection that reached the new endpoint began. */
async function changeProbe(column: Column, limitSeconds: number): Promise<number | undefined> {
  const half = column.probeHalf === 0 ? 1 : 0;
  column.probeHalf = half;
  const awaited = { range: FAR_HALVES[half], count: 1, periodUs: PERIOD_US };
  const reaching = column.traffic.inside.reach(clusterIpOf(column, 'probe'), {
    ...awaited,
    timeoutMs: limitSeconds * 1_000,
  });
  const sentNs = clockNs();
  await column.api.change([put(probeSlice(half))]);
  const reached = await reaching;
  return reached && Math.max(0, reached.reachedNs - sentNs) / 1e6;
}

async function measureChurn(turn: Turn, process: ProxyProcess) {
  const { column, services, settings, recorder } = turn;
  const before = process.cpuSeconds();
  const count = Math.round(settings.churnMs / CHURN_PERIOD_MS);
  await atRate({ count, periodMs: CHURN_PERIOD_MS }, (number) => {
    const turnOfSlice = 1 + Math.floor(number / services);
    return column.api.change([put(otherSlice(number % services, turnOfSlice))]);
  });
  const churn = await changeProbe(column, settings.limitSeconds);
  if (churn === undefined) {
    recorder.note(
      column.name,
      `a change amid others did not show within ${settings.limitSeconds} s`,
    );
    return {};
  }
  await untilIdle(process);
  return { churn, churnCpu: ((process.cpuSeconds() - before) / (count + 1)) * 1_000 };
}
