// SPDX-License-Identifier: Apache-2.0
// One round of traffic: every workload, and for each every column, in rotating order.
import { turns } from '../../lab/columns/turns.ts';
import { type Column, destinationOf } from './column.ts';
import type { Recorder } from './recorder.ts';
import { valuesOfSample, WORKLOADS, type Workload } from './workloads.ts';

export interface TrafficRound {
  readonly round: number;
  readonly scale: number;
  /** undefined: the round does not count. */
  readonly recorder: Recorder | undefined;
}

export async function measureTraffic(
  columns: readonly Column[],
  { round, scale, recorder }: TrafficRound,
): Promise<void> {
  for (const workload of WORKLOADS) {
    for (const column of turns(columns, round)) await measureOne(column, workload, scale, recorder);
  }
}

async function measureOne(
  column: Column,
  workload: Workload,
  scale: number,
  recorder: Recorder | undefined,
): Promise<void> {
  const { call, from, amount } = workload;
  // A proxy that did not start has nothing to show.
  const isServed = column.proxy === undefined || column.process !== undefined;
  if (!isServed) {
    for (const [metric] of valuesOfSample(workload, EMPTY))
      recorder?.add(metric, column.name, null);
    return;
  }
  const to = destinationOf(column, from);
  const sample = await column.traffic[from].measure(call, to, Math.ceil(amount * scale));
  if (recorder === undefined) return;
  for (const [metric, value] of valuesOfSample(workload, sample)) {
    recorder.add(metric, column.name, value);
  }
  const { units, lost, resent } = sample;
  const what = `${NAMES[call]}${from === 'outside' ? ' to the NodePort' : ''}`;
  recorder.countBad(column.name, `${what} lost`, { units: units + lost, bad: lost });
  recorder.countBad(column.name, `${what} resent`, { units, bad: resent });
}

const EMPTY = { units: 0, cpuNs: 0, lost: 0, resent: 0, p50Ns: 0, p99Ns: 0, p999Ns: 0 };
const NAMES = { tcp: 'connections', udp: 'datagrams', request: 'requests', bulk: 'bulk' } as const;
