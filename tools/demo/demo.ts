// SPDX-License-Identifier: Apache-2.0
// The phases of the demo, from the prerequisites to the clean-up; its network is built by tools/lab. Everything it
// creates has a unique prefix and is always removed.
import { EXIT, FairleadError } from '../../src/errors.ts';
import { checkNeeds } from '../lab/needs.ts';
import { removeLeftovers } from '../lab/ownership.ts';
import { exitOnSignals } from '../lab/topology.ts';
import { keepStage } from './keep.ts';
import { showAgentDeath, showCleanup, showRefusal } from './phase-agent.ts';
import { ms, showBackendDeath, showScaling } from './phase-change.ts';
import { showAffinity, showDistribution } from './phase-distribution.ts';
import type { Screen } from './screen.ts';
import { buildDemoTopology, type PhaseResult, type Stage, setStage } from './stage.ts';

/** What `--json` prints. */
export interface DemoReport {
  readonly apiVersion: 'fairlead.io/v1';
  readonly kind: 'DemoReport';
  readonly isOk: boolean;
  readonly connections: number;
  readonly failures: number;
  readonly setUpMs: number;
  readonly durationMs: number;
  readonly phases: readonly PhaseResult[];
}

export interface DemoOptions {
  /** Keeps everything running after the last phase, until SIGINT or SIGTERM. */
  readonly isKept: boolean;
  /** Called once, before a kept demo waits. */
  readonly onReport: (report: DemoReport) => void;
}

/** Throws FairleadError if this machine lacks something. */
export async function runDemo(screen: Screen, options: DemoOptions): Promise<void> {
  const stopExiting = exitOnSignals();
  await requireNeeds(screen);
  const leftovers = removeLeftovers();
  if (leftovers.length > 0) screen.line(`removed what ${leftovers.join(', ')} left behind`);
  const startedMs = performance.now();
  const topology = await buildDemoTopology();
  try {
    const stage = await setStage(screen, topology);
    const setUpMs = performance.now() - startedMs;
    showStage(stage, setUpMs);
    const phases = await playPhases(stage, options.isKept);
    const report = summarise(phases, setUpMs, performance.now() - startedMs - setUpMs);
    showSummary(screen, report);
    options.onReport(report);
    if (options.isKept) {
      stopExiting();
      await keepStage(stage);
    }
  } finally {
    topology.remove();
    screen.line(screen.faint('removed all namespaces, processes, cgroups and mounts of the demo'));
  }
}

async function requireNeeds(screen: Screen): Promise<void> {
  const needs = await checkNeeds();
  screen.line(screen.strong('fairlead demo: a node with 13 pods, on this machine only'));
  for (const { name, isMet, text } of needs) {
    screen.line(`  ${isMet ? screen.good('ok     ') : screen.bad('MISSING')}  ${name}: ${text}`);
  }
  const missing = needs.filter(({ isMet }) => !isMet).map(({ name }) => name);
  if (missing.length === 0) return;
  throw new FairleadError('NO_PRIVILEGE', `the demo cannot run without: ${missing.join(', ')}`);
}

function showStage({ screen, topology, agent }: Stage, setUpMs: number): void {
  const pods = topology.nodes.flatMap((node) => node.pods).length;
  const what = `namespaces ${topology.prefix}-*: 1 node, ${pods} pods, each with its own process`;
  screen.line(`  ${what}; set up in ${ms(setUpMs)}, agent in sync after ${ms(agent.readyAfterMs)}`);
  screen.line();
}

/** The last phase removes the programmed state and is skipped if the demo is kept. */
async function playPhases(stage: Stage, isKept: boolean): Promise<PhaseResult[]> {
  return [
    ...(await showDistribution(stage)),
    await showAffinity(stage),
    await showScaling(stage),
    await showBackendDeath(stage),
    await showAgentDeath(stage),
    await showRefusal(stage),
    ...(isKept ? [] : [await showCleanup(stage)]),
  ];
}

function summarise(
  phases: readonly PhaseResult[],
  setUpMs: number,
  durationMs: number,
): DemoReport {
  return {
    apiVersion: 'fairlead.io/v1',
    kind: 'DemoReport',
    isOk: phases.every(({ isOk }) => isOk),
    connections: phases.reduce((sum, { connections }) => sum + connections, 0),
    failures: phases.reduce((sum, { failures }) => sum + failures, 0),
    ...{ setUpMs, durationMs, phases },
  };
}

function showSummary(screen: Screen, report: DemoReport): void {
  const { connections, failures, durationMs, isOk, phases } = report;
  const text = `${connections} connections, ${failures} failed, ${(durationMs / 1000).toFixed(1)} s`;
  screen.line(
    isOk ? screen.good(`all as expected: ${text}`) : screen.bad(`NOT as expected: ${text}`),
  );
  for (const { name } of phases.filter((phase) => !phase.isOk)) screen.line(`  failed: ${name}`);
}

export function exitCodeOf(report: DemoReport): number {
  return report.isOk ? EXIT.fine : EXIT.failed;
}
