// SPDX-License-Identifier: Apache-2.0
// One run on one site: proxies start, and for each size Services are added, awaited, and rounds measured.
import { loadavg } from 'node:os';
import { fairleadPaths } from '../../test/support/fixture/proxies/fairlead.ts';
import type { NodeProxy } from '../../test/support/fixture/proxies/proxy.ts';
import { until } from '../../test/support/until.ts';
import { letPass } from '../control/clock.ts';
import { cpuSeconds } from '../control/proxies/account.ts';
import type { Options } from './options.ts';
import { between, holdStatistics, programDirections, readCounts } from './programs.ts';
import type { ProgramFigures, SizeFigures } from './report/figures.ts';
import { type Column, measureOnce, measureRounds } from './rounds.ts';
import { LAST_PORT, measuredObjects, NODE, otherObjects } from './site/objects.ts';
import { startProxy } from './site/proxies.ts';
import { buildSite, type ColumnSite, type PacketSite } from './site/site.ts';
import { destination, startTraffic } from './site/traffic.ts';
import { WORKLOADS, type Workload } from './workloads.ts';

const READY_MS = 120_000;
const IDLE_WINDOW_MS = 400;
/** Of a core: below it a proxy has nothing left to program. */
const IDLE_SHARE = 0.05;
/** Objects told to the stub at once. */
const CHUNK = 4_000;

interface RunningColumn extends Column {
  readonly site: ColumnSite;
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
  { api }: PacketSite,
  site: ColumnSite,
  { options, kubeProxyPath, onProgress }: Means,
): Promise<RunningColumn> {
  onProgress(`starting ${site.name}`);
  const proxy = await startProxy(site, api.kubeconfig, kubeProxyPath);
  const traffic = await startTraffic(site, options.cpu);
  const toolsCgroup = site.tools('node').cgroup;
  const column = { name: site.name, site, proxy, traffic, toolsCgroup };
  const isDirect = proxy === undefined;
  for (const backend of ['local', 'remote'] as const) {
    await untilAnswered(column, destination(backend, isDirect));
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
  { api }: PacketSite,
  columns: readonly RunningColumn[],
  { from, to }: { readonly from: number; readonly to: number },
): Promise<void> {
  if (to > from) {
    const changes = otherObjects(to - 1);
    for (let at = 0; at < changes.length; at += CHUNK) {
      await api.change(changes.slice(at, at + CHUNK));
    }
    for (const column of columns.filter(({ proxy }) => proxy !== undefined)) {
      await untilAnswered(column, { ...destination('local', false), port: LAST_PORT });
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

async function measurePrograms(
  columns: readonly RunningColumn[],
  workloads: readonly Workload[],
): Promise<Readonly<Record<string, ProgramFigures>>> {
  const column = columns.find(({ name }) => name === 'fairlead');
  if (column === undefined) return {};
  const directions = programDirections(fairleadPaths(column.site, NODE).bpfRoot);
  const read = () => readCounts(column.toolsCgroup, directions);
  const figures: Record<string, ProgramFigures> = {};
  for (const workload of workloads) {
    const before = read();
    const { units } = await measureOnce(column, workload);
    figures[workload.name] = between(before, read(), units);
  }
  return figures;
}
