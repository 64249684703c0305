// SPDX-License-Identifier: Apache-2.0
// The start of a column's proxy, from exec until the Service that was created last answers.
import { setTimeout as letPass } from 'node:timers/promises';
import { FAR_RANGE } from '../../lab/columns/network.ts';
import type { ProxyProcess } from '../proxies/process.ts';
import { type Column, clusterIpOf } from './column.ts';
import type { Recorder } from './recorder.ts';

const PERIOD_US = 2_000;
const IDLE_WINDOW_MS = 300;
/** Of a core: below it a proxy has nothing left to program. */
const IDLE_SHARE = 0.05;
const IDLE_WITHIN_MS = 60_000;
/** So often it is looked whether the proxy is still running. */
const LOOK_MS = 2_000;

export interface Started {
  readonly process: ProxyProcess;
  readonly seconds: number;
  readonly cpuSeconds: number;
}

/** undefined if it does not answer in time; then it is stopped. Throws with the end of its log if it ends. */
export async function startColumn(
  column: Column,
  limitSeconds: number,
  recorder: Recorder,
): Promise<Started | undefined> {
  await column.process?.stop();
  column.process = undefined;
  if (column.proxy === undefined) return undefined;
  const process = await column.proxy.start(column.api.kubeconfig);
  column.process = process;
  const reachedNs = await untilReached(column, process, limitSeconds);
  if (reachedNs === undefined) {
    recorder.note(column.name, `does not answer ${limitSeconds} s after its start`);
    await process.stop();
    column.process = undefined;
    return undefined;
  }
  const seconds = (reachedNs - process.startedNs) / 1e9;
  return { process, seconds, cpuSeconds: process.cpuSeconds() };
}

async function untilReached(
  column: Column,
  process: ProxyProcess,
  limitSeconds: number,
): Promise<number | undefined> {
  for (let waitedMs = 0; waitedMs < limitSeconds * 1_000; waitedMs += LOOK_MS) {
    const awaited = { range: FAR_RANGE, count: 1, periodUs: PERIOD_US, timeoutMs: LOOK_MS };
    const reached = await column.traffic.inside.reach(clusterIpOf(column, 'last'), awaited);
    if (reached !== undefined) return reached.reachedNs;
    if (!process.isRunning()) throw new Error(`${column.name} ended:\n${process.tail()}`);
  }
  return undefined;
}

/** Until the proxy has nothing left to do: what it still programs would be counted for what comes next. */
export async function untilIdle(process: ProxyProcess): Promise<void> {
  for (let waitedMs = 0; waitedMs < IDLE_WITHIN_MS; waitedMs += IDLE_WINDOW_MS) {
    const before = process.cpuSeconds();
    await letPass(IDLE_WINDOW_MS);
    const share = ((process.cpuSeconds() - before) * 1_000) / IDLE_WINDOW_MS;
    if (share < IDLE_SHARE) return;
  }
}
