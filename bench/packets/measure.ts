// SPDX-License-Identifier: Apache-2.0
// One run on one site: proxies start, and for each size Services are added, awaited, and rounds measured.
import { loadavg } from 'node:os';
import { fairleadPaths } from '../../test/support/fixture/proxies/fairlead.ts';
import type { NodeProxy } from '../../test/support/fixture/proxies/proxy.ts';
import { until } from '../../test/support/until.ts';
import { cpuSeconds } from '../../tools/lab/account.ts';
import { buildSite, type ColumnSite, type Site } from '../../tools/lab/columns/site.ts';
import { letPass } from '../control/clock.ts';
import type { Options } from './options.ts';
import {
  added,
  holdStatistics,
  NOTHING_COUNTED,
  perRun,
  programDirections,
  readCounts,
} from './programs.ts';
import type { ColumnName, ProgramFigures, Programs, SizeFigures } from './report/figures.ts';
import { type Column, isUntranslated, measureOnce, measureRounds } from './rounds.ts';
import { LAST_PORT, measuredObjects, NODE, otherObjects } from './site/objects.ts';
import { startProxy } from './site/proxies.ts';
import { destination, startTraffic } from './site/traffic.ts';
import { WORKLOADS, type Workload } from './workloads.ts';

const READY_MS = 120_000;
const IDLE_WINDOW_MS = 400;
/** Of a core: below it a proxy has nothing left to program. */
const IDLE_SHARE = 0.05;
/** Of each workload, with the kernel counting: one is too short to see ten nanoseconds. */
const COUNTED_ROUNDS = 3;
/** Objects told to the stub at once. */
const CHUNK = 4_000;

interface RunningColumn extends Column {
  readonly site: ColumnSite<ColumnName>;
  readonly proxy: NodeProxy | undefined;
  readonly toolsCgroup: string;
}

export interface Means {
  readonly options: Options;
  readonly kubeProxyPath: string | undefined;
  readonly onProgress: (what: string) => void;
  readonly onSize: (size: SizeFigures) => void;
}

export async function measureAll(means: Means): Promise<void> {
  const { options, onProgress, onSize } = means;
  const workloads = WORKLOADS.filter(({ name }) => name.includes(options.rows));
  const statistics = holdStatistics();
  const site = await buildSite(options.columns);
  const running: RunningColumn[] = [];
  try {
    await site.api.change(measuredObjects());
    for (const column of site.columns) running.push(await startColumn(site, column, means));
    let present = 1;
    for (const services of options.services) {
      onProgress(`${services} Services: programming`);
      await grow(site, running, { from: present, to: services });
      present = services;
      onProgress(`${services} Services: ${options.rounds} rounds`);
      const samples = await measureRounds(running, workloads, options);
      const loadAfter = loadavg()[0] ?? 0;
      statistics.count(true);
      const programs = await measurePrograms(running, workloads);
      statistics.count(false);
      onSize({ services, samples, loadAfter, programs });
    }
  } finally {
    await Promise.all(running.flatMap(({ traffic, proxy }) => [traffic.stop(), proxy?.stop()]));
    site.remove();
    statistics.restore();
  }
}

async function startColumn(
  { api }: Site,
  site: ColumnSite<ColumnName>,
  { options, kubeProxyPath, onProgress }: Means,
): Promise<RunningColumn> {
  onProgress(`starting ${site.name}`);
  const proxy = await startProxy(site, api.kubeconfig, {
    kubeProxyPath,
    otherPrograms: options.programs,
  });
  const traffic = await startTraffic(site, options.cpu);
  const toolsCgroup = site.tools('node').cgroup;
  const column = { name: site.name, site, proxy, traffic, toolsCgroup };
  const isDirect = isUntranslated(column.name);
  for (const backend of ['local', 'remote'] as const) {
    await untilAnswered(column, destination(site, backend, isDirect));
  }
  return column;
}

/** Fails at once if the proxy has ended. */
async function untilAnswered(
  { name, traffic, proxy }: RunningColumn,
  to: ReturnType<typeof destination>,
): Promise<void> {
  const what = `${name} answers at ${to.address}:${to.port}`;
  const outcome = await until(
    async () =>
      (proxy?.isRunning() === false ? 'ended' : await traffic.isAnswered(to)) || undefined,
    { what, timeoutMs: READY_MS },
  ).catch((cause: unknown) => {
    throw new Error(`${what}: no.\n${proxy?.tail() ?? ''}`, { cause });
  });
  if (outcome === 'ended') throw new Error(`${name} ended:\n${proxy?.tail()}`);
}

async function grow(
  { api }: Site,
  columns: readonly RunningColumn[],
  { from, to }: { readonly from: number; readonly to: number },
): Promise<void> {
  if (to > from) {
    const changes = otherObjects(to - 1);
    for (let at = 0; at < changes.length; at += CHUNK) {
      await api.change(changes.slice(at, at + CHUNK));
    }
    for (const column of columns.filter(({ name }) => !isUntranslated(name))) {
      await untilAnswered(column, { ...destination(column.site, 'local', false), port: LAST_PORT });
    }
  }
  for (const { name, toolsCgroup } of columns) {
    await until(() => isIdle(toolsCgroup), { what: `${name} is idle`, timeoutMs: READY_MS });
  }
}

async function isIdle(cgroup: string): Promise<boolean> {
  const before = cpuSeconds(cgroup);
  await letPass(IDLE_WINDOW_MS);
  return cpuSeconds(cgroup) - before < (IDLE_SHARE * IDLE_WINDOW_MS) / 1000;
}

/** Adds up rounds in which each column has its turn at each workload. */
async function measurePrograms(
  columns: readonly RunningColumn[],
  workloads: readonly Workload[],
): Promise<Programs> {
  const counted = columns.flatMap((column) => {
    const directions = programDirections(fairleadPaths(column.site, NODE).bpfRoot);
    const read = () => readCounts(column.toolsCgroup, directions);
    return directions.size === 0 ? [] : [{ column, read }];
  });
  const programs: Partial<Record<ColumnName, Record<string, ProgramFigures>>> = {};
  for (const workload of workloads) {
    const sums = counted.map(() => NOTHING_COUNTED);
    for (let round = 0; round < COUNTED_ROUNDS; round += 1) {
      for (const [at, { column, read }] of counted.entries()) {
        const before = read();
        const { units } = await measureOnce(column, workload);
        sums[at] = added(sums[at]!, { before, after: read(), units });
      }
    }
    for (const [at, { column }] of counted.entries()) {
      programs[column.name] = { ...programs[column.name], [workload.name]: perRun(sums[at]!) };
    }
  }
  return programs;
}
