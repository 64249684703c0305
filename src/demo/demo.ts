// SPDX-License-Identifier: Apache-2.0
// The demo from first check to last clean-up, in reading order. Everything it makes bears its own prefix
// and is removed whatever happens.
import { EXIT, FairleadError } from '../errors.ts';
import { checkNeeds } from '../lab/needs.ts';
import { removeLeftovers } from '../lab/ownership.ts';
import { exitOnSignals } from '../lab/topology.ts';
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

/** Throws FairleadError if this machine lacks something. */
export async function runDemo(screen: Screen): Promise<DemoReport> {
  await requireNeeds(screen);
  exitOnSignals();
  const leftovers = removeLeftovers();
  if (leftovers.length > 0) screen.line(`removed what ${leftovers.join(', ')} had left behind`);
  const startedMs = performance.now();
  const topology = await buildDemoTopology();
  try {
    const stage = await setStage(screen, topology);
    const setUpMs = performance.now() - startedMs;
    showStage(stage, setUpMs);
    const phases = await playPhases(stage);
    const report = summarise(phases, setUpMs, performance.now() - startedMs - setUpMs);
    showSummary(screen, report);
    return report;
  } finally {
    topology.remove();
    screen.line(screen.faint('removed every namespace, process, cgroup and mount of the demo'));
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
  screen.line(`  ${what}; set up in ${ms(setUpMs)}, agent in step after ${ms(agent.readyAfterMs)}`);
  screen.line();
}

async function playPhases(stage: Stage): Promise<PhaseResult[]> {
  return [
    ...(await showDistribution(stage)),
    await showAffinity(stage),
    await showScaling(stage),
    await showBackendDeath(stage),
    await showAgentDeath(stage),
    await showRefusal(stage),
    await showCleanup(stage),
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
    isOk ? screen.good(`all as promised: ${text}`) : screen.bad(`NOT as promised: ${text}`),
  );
  for (const { name } of phases.filter((phase) => !phase.isOk)) screen.line(`  failed: ${name}`);
}

export function exitCodeOf(report: DemoReport): number {
  return report.isOk ? EXIT.fine : EXIT.failed;
}
