// SPDX-License-Identifier: Apache-2.0
// Phases 3 and 4: backends are added, removed and killed under traffic, without a failed connection.
import { nowMs } from '../lab/client/clock.ts';
import type { LoadReport } from '../lab/client/protocol.ts';
import { connectionsOf } from '../lab/connections.ts';
import type { Endpoint } from '../lab/manifests.ts';
import { startServer } from '../lab/sandbox.ts';
import { putEndpoints, serverPorts, WEB_PODS } from './services.ts';
import {
  awaitLoad,
  awaitMore,
  mainClient,
  type PhaseResult,
  podsNamed,
  quietAfter,
  type Stage,
  serviceTarget,
} from './stage.ts';

/** Of others: by chance none of so many connections gets one backend of three in one run of 10^35. */
const QUIET_ANSWERS = 200;
/** Connections before and after each change: about half a second. */
const MORE = 500;

export async function showScaling(stage: Stage): Promise<PhaseResult> {
  const { screen } = stage;
  screen.line(screen.strong('3  Scale web 5 → 8 → 3 under continuous traffic'));
  const load = await mainClient(stage).startLoad(serviceTarget(stage, 'web'));
  const old = WEB_PODS.slice(0, 5);
  await awaitLoad(load, ({ hits }) => old.every((pod) => hits[pod] !== undefined));
  await awaitMore(load, MORE);

  const grownMs = putWeb(stage, WEB_PODS);
  const added = WEB_PODS.slice(5);
  const grown = await awaitLoad(load, ({ hits }) => added.every((pod) => hits[pod] !== undefined));
  const firstHitMs = Math.min(...added.map((pod) => grown?.hits[pod]?.firstMs ?? Infinity));
  const growMs = firstHitMs - grownMs;
  screen.line(
    `  5 → 8: first connection on a new backend ${ms(growMs)} after the file was written`,
  );

  await awaitMore(load, MORE);
  const shrunkMs = putWeb(stage, WEB_PODS.slice(0, 3));
  const removed = WEB_PODS.slice(3);
  const shrunk = await awaitLoad(load, quietAfter(removed, QUIET_ANSWERS));
  const lastHitMs = Math.max(...removed.map((pod) => shrunk?.hits[pod]?.lastMs ?? Infinity));
  const shrinkMs = Math.max(0, lastHitMs - shrunkMs);
  screen.line(`  8 → 3: last connection on a removed backend ${ms(shrinkMs)} after it`);

  await awaitMore(load, MORE);
  const report = await load.stop();
  const isOk = grown !== undefined && shrunk !== undefined && report.failureCount === 0;
  showLoad(stage, report, isOk);
  return result('scaling', isOk, report, { growMs, shrinkMs });
}

/** As a kubelet does: the endpoint becomes not ready, and later the process ends. */
export async function showBackendDeath(stage: Stage): Promise<PhaseResult> {
  const { screen } = stage;
  screen.line(screen.strong('4  A backend is removed under traffic'));
  const names = WEB_PODS.slice(0, 3);
  const [victim = 'web-1'] = names;
  const load = await mainClient(stage).startLoad(serviceTarget(stage, 'web'));
  await awaitLoad(load, ({ hits }) => names.every((pod) => hits[pod] !== undefined));

  const leftMs = putWeb(stage, names, victim);
  const drained = await awaitLoad(load, quietAfter([victim], QUIET_ANSWERS));
  const drainMs = Math.max(0, (drained?.hits[victim]?.lastMs ?? Infinity) - leftMs);
  screen.line(
    `  ${victim} not ready: its last connection ${ms(drainMs)} after the file was written`,
  );
  const server = stage.servers.get(victim);
  await awaitLoad(
    load,
    () => server === undefined || server.hasExited() || connectionsOf(server.pid) === 0,
  );
  server?.kill('SIGKILL');
  await server?.exited;
  const carried = await awaitMore(load, MORE);
  screen.line(`  ${victim} killed: the other two continue to serve`);

  const returnMs = await revive(stage, victim, names);
  const back = await awaitLoad(load, ({ hits }) => (hits[victim]?.lastMs ?? 0) > returnMs);
  await awaitMore(load, MORE);
  screen.line(`  ${victim} restarted, ready, and ${back ? 'in use' : screen.bad('NOT in use')}`);
  const report = await load.stop();
  const hasGone = drained !== undefined && carried !== undefined && back !== undefined;
  const isOk = hasGone && report.failureCount === 0;
  showLoad(stage, report, isOk);
  return result('backend death', isOk, report, { drainMs });
}

async function revive(stage: Stage, victim: string, names: readonly string[]): Promise<number> {
  for (const pod of podsNamed(stage, [victim])) {
    stage.servers.set(victim, await startServer(pod, serverPorts(stage.examples)));
  }
  putWeb(stage, names);
  return nowMs();
}

function putWeb(stage: Stage, names: readonly string[], notReady?: string): number {
  const endpoints: Endpoint[] = podsNamed(stage, names).map((pod) => ({
    pod,
    isReady: pod.name !== notReady,
  }));
  return putEndpoints(stage.instance, stage.examples, { service: 'web', endpoints });
}

export function ms(durationMs: number): string {
  if (!Number.isFinite(durationMs)) return 'never';
  return `${durationMs.toFixed(durationMs < 10 ? 1 : 0)} ms`;
}

export function showLoad({ screen }: Stage, report: LoadReport, isOk: boolean): void {
  const { connections, failureCount, failures, startedMs } = report;
  const text = `${connections} connections, ${failureCount} failed`;
  screen.line(`  ${isOk ? screen.good(text) : screen.bad(text)}`);
  for (const { atMs, code } of failures.slice(0, 5)) {
    screen.line(`    ${code} ${ms(atMs - startedMs)} after the start of the load`);
  }
  screen.line();
}

export function result(
  name: string,
  isOk: boolean,
  report: LoadReport,
  facts: PhaseResult['facts'],
): PhaseResult {
  const { connections, failureCount, failures, longestGapMs } = report;
  const all = { ...facts, longestGapMs, failures };
  return { name, isOk, connections, failures: failureCount, facts: all };
}
