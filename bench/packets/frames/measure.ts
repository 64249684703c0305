// SPDX-License-Identifier: Apache-2.0
// The second part of the run: a site of its own, whose nodes get frames.
import { cpus, loadavg } from 'node:os';
import { until } from '../../../test/support/until.ts';
import { cpuSeconds } from '../../../tools/lab/account.ts';
import { buildSite } from '../../../tools/lab/columns/site.ts';
import { letPass } from '../../control/clock.ts';
import type { Options } from '../options.ts';
import { holdStatistics } from '../programs.ts';
import type { FrameRow, FrameSizeFigures } from '../report/frames/figures.ts';
import { type FrameColumn, isDirect, mustHaveXdp, startColumn, stopColumn } from './column.ts';
import { measureLatencies } from './latency.ts';
import { firstObjects, manyObjects } from './objects.ts';
import { aimOf, ROWS } from './rows.ts';
import { measureRow } from './samples.ts';

const READY_MS = 240_000;
const IDLE_WINDOW_MS = 400;
/** Of a core: below it a proxy has nothing left to program. */
const IDLE_SHARE = 0.05;
/** Objects told to the stub at once. */
const CHUNK = 4_000;

export interface FrameMeans {
  readonly options: Options;
  readonly kubeProxyPath: string | undefined;
  readonly onProgress: (what: string) => void;
  readonly onSize: (size: FrameSizeFigures) => void;
}

export async function measureFrames(means: FrameMeans): Promise<void> {
  const { options, kubeProxyPath, onProgress, onSize } = means;
  const rows = ROWS.filter(({ name }) => name.includes(options.rows));
  const statistics = holdStatistics();
  const site = await buildSite(options.columns);
  const columns: FrameColumn[] = [];
  const builds = { kubeProxyPath, otherPrograms: options.programs, cpu: options.cpu };
  try {
    await site.api.change(firstObjects());
    for (const column of site.columns) {
      onProgress(`frames: starting ${column.name}`);
      columns.push(await startColumn(site, column, { ...builds, cpus: cpus().length }));
    }
    for (const services of options.services) {
      onProgress(`frames, ${services} Services: programming`);
      if (services > 1) await add(site.api.change, services);
      for (const column of columns) await untilServed(column, services);
      const figures: FrameRow[] = [];
      const how = { services, rounds: options.rounds, scale: options.scale };
      for (const row of rows) {
        onProgress(`frames, ${services} Services: ${row.name}`);
        figures.push(await measureRow(columns, row, how, statistics.count));
      }
      onProgress(`frames, ${services} Services: latency`);
      const latencies = await measureLatencies(columns, how);
      for (const column of columns) await mustHaveXdp(column);
      onSize({ services, rows: figures, latencies, loadAfter: loadavg()[0] ?? 0 });
    }
  } finally {
    await Promise.all(columns.map(stopColumn));
    site.remove();
    statistics.restore();
  }
}

async function add(
  change: (changes: ReturnType<typeof manyObjects>) => Promise<void>,
  services: number,
): Promise<void> {
  const objects = manyObjects(services);
  for (let at = 0; at < objects.length; at += CHUNK) await change(objects.slice(at, at + CHUNK));
}

/** Frames for the last Service arrive, and the proxy has nothing left to do. */
async function untilServed(column: FrameColumn, services: number): Promise<void> {
  const { name, feeder, proxy, toolsCgroup } = column;
  for (const row of ROWS.filter(({ order, manner }) => order === 'new' && manner === 'sink')) {
    const aim = aimOf(row, services, isDirect(column));
    const last = { ...aim, targets: 1, port: aim.port + (aim.targets - 1) * aim.portStep };
    await feeder.take(row, last);
    const outcome = await until(
      async () => {
        if (proxy?.isRunning() === false) return 'ended';
        const { atServer, atNode } = await feeder.feed(1);
        return atServer + atNode === 1;
      },
      { what: `${name}: frames arrive`, timeoutMs: READY_MS },
    );
    if (outcome === 'ended') throw new Error(`${name} ended:\n${proxy?.tail()}`);
  }
  await until(() => isIdle(toolsCgroup), { what: `${name} is idle`, timeoutMs: READY_MS });
}

async function isIdle(cgroup: string): Promise<boolean> {
  const before = cpuSeconds(cgroup);
  await letPass(IDLE_WINDOW_MS);
  return cpuSeconds(cgroup) - before < (IDLE_SHARE * IDLE_WINDOW_MS) / 1000;
}
