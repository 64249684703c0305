// SPDX-License-Identifier: Apache-2.0
// `npm run bench`: carries out the plan of a run, and hands over a report that grows with it. Namespaces, cgroups and
// mounts are its own, and are removed however it ends.
import { cpus, loadavg } from 'node:os';
import { packageVersion } from '../../src/sys/package.ts';
import { buildSite } from '../lab/columns/site.ts';
import { exitOnSignals } from '../lab/topology.ts';
import { thisMachine, today } from './lib/machine.ts';
import {
  type Column,
  changeObjects,
  destinationOf,
  openColumn,
  stopColumn,
} from './measure/column.ts';
import { Recorder } from './measure/recorder.ts';
import { measureRoll, ROLL } from './measure/roll.ts';
import { measureTraffic } from './measure/traffic.ts';
import { measureTurn } from './measure/turn.ts';
import { isExpendable, planOf, type Step } from './plan/plan.ts';
import type { RunSettings } from './plan/settings.ts';
import { type DoneStep, secondsLeft } from './plan/time-left.ts';
import type { ProxySettings } from './proxies/start.ts';
import type { BenchReport, ColumnName, SizeFigures } from './report/types.ts';
import { ENDPOINTS_EACH, lastObjects, otherObjects } from './site/objects.ts';

export interface Progress {
  /** From 0 to 1, of the expected time. */
  readonly share: number;
  readonly secondsLeft: number;
  readonly step: Step;
}

export interface BenchRun {
  readonly settings: RunSettings;
  readonly proxies: ProxySettings;
  readonly skipped: BenchReport['skipped'];
  readonly onProgress: (progress: Progress) => void;
  /** After each size, and at the end: what has been measured so far. */
  readonly onReport: (report: BenchReport) => void;
}

export async function runBench(run: BenchRun): Promise<void> {
  const stopExiting = exitOnSignals();
  const base = describeRun(run);
  const site = await buildSite<ColumnName>(run.settings.columns);
  const columns: Column[] = [];
  try {
    const cpu = cpus().length - 1;
    for (const own of site.columns) {
      columns.push(await openColumn(site, own, { ...run.proxies, cpu }));
    }
    await carryOut(run, columns, base);
  } finally {
    await Promise.allSettled(columns.map(stopColumn));
    site.remove();
    stopExiting();
  }
}

function describeRun({ settings, proxies, skipped }: BenchRun): BenchReport {
  return {
    apiVersion: 'fairlead.io/v1',
    kind: 'BenchReport',
    version: packageVersion(),
    date: today(),
    machine: thisMachine(),
    ...{ iptables: proxies.iptables, endpointsEach: ENDPOINTS_EACH },
    ...{ columns: settings.columns, skipped, sizes: [] },
  };
}

interface Recorders {
  readonly sizes: Map<number, Recorder>;
  readonly roll: Recorder;
}

async function carryOut(
  { settings, onProgress, onReport }: BenchRun,
  columns: readonly Column[],
  base: BenchReport,
): Promise<void> {
  const plan = planOf(settings);
  const recorders: Recorders = { sizes: new Map(), roll: new Recorder() };
  const loads = new Map<number, number>();
  const done: DoneStep[] = [];
  const report = (): BenchReport => reportOf(base, recorders, loads, settings);
  for (const [at, step] of plan.entries()) {
    const left = secondsLeft(plan.slice(at), done);
    const spent = done.reduce((sum, { seconds }) => sum + seconds, 0);
    const { budgetSeconds = Number.POSITIVE_INFINITY } = settings;
    if (isExpendable(step) && spent + left > budgetSeconds) {
      recorders.sizes.get(step.services)?.tell('Rounds of traffic were left out for want of time.');
      continue;
    }
    onProgress({ share: spent / Math.max(1, spent + left), secondsLeft: left, step });
    const startedMs = performance.now();
    await execute(step, { settings, columns, recorders });
    done.push({ step, seconds: (performance.now() - startedMs) / 1_000 });
    loads.set(step.services, loadavg()[0] ?? 0);
    if (plan[at + 1]?.services !== step.services) onReport(report());
  }
  onReport(report());
}

function reportOf(
  base: BenchReport,
  { sizes, roll }: Recorders,
  loads: ReadonlyMap<number, number>,
  settings: RunSettings,
): BenchReport {
  const figures = (services: number, recorder: Recorder): SizeFigures => {
    const { samples, notes } = recorder;
    return { services, samples, notes, loadAfter: loads.get(services) ?? 0 };
  };
  const [first = 0] = settings.services;
  return {
    ...base,
    sizes: [...sizes].map(([services, recorder]) => figures(services, recorder)),
    ...(settings.rollTurns > 0 && { roll: { ...figures(first, roll), ...ROLL } }),
  };
}

interface Means {
  readonly settings: RunSettings;
  readonly columns: readonly Column[];
  readonly recorders: Recorders;
}

async function execute(step: Step, { settings, columns, recorders }: Means): Promise<void> {
  const { services } = step;
  const recorder = recorders.sizes.get(services) ?? new Recorder();
  recorders.sizes.set(services, recorder);
  switch (step.kind) {
    case 'grow':
      return grow(columns, services, settings);
    case 'turn':
    case 'roll': {
      const column = columns.find(({ name }) => name === step.column);
      if (column === undefined) return;
      const turn = { column, services, settings };
      if (step.kind === 'turn') return measureTurn({ ...turn, recorder });
      return measureRoll({ ...turn, recorder: recorders.roll });
    }
    case 'warm-up':
    case 'traffic': {
      const isCounted = step.kind === 'traffic';
      if (!isCounted) await refuseDeadPaths(columns);
      const round = { round: step.round, scale: settings.scale };
      return measureTraffic(columns, { ...round, recorder: isCounted ? recorder : undefined });
    }
  }
}

/** Proxies that still run would program what comes: they start anew in their next turn anyway. */
async function grow(
  columns: readonly Column[],
  services: number,
  { services: sizes }: RunSettings,
): Promise<void> {
  const before = sizes[sizes.indexOf(services) - 1] ?? 0;
  for (const column of columns.filter(({ proxy }) => proxy !== undefined)) {
    await column.process?.stop();
    column.process = undefined;
    await changeObjects(column, [...otherObjects(before, services), ...lastObjects()]);
  }
}

/** A column whose Service does not answer would be measured as very fast, or very slow. */
async function refuseDeadPaths(columns: readonly Column[]): Promise<void> {
  for (const column of columns) {
    if (column.proxy !== undefined && column.process === undefined) continue;
    for (const from of ['inside', 'outside'] as const) {
      const to = destinationOf(column, from);
      if (await column.traffic[from].isAnswered(to)) continue;
      if (await column.traffic[from].isAnswered(to)) continue;
      const log = column.process?.tail() ?? '';
      throw new Error(`${column.name}: ${to.address}:${to.port} does not answer\n${log}`);
    }
  }
}
