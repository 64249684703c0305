// SPDX-License-Identifier: Apache-2.0
// One instance from its flags to a running agent, in reading order: checks, kernel, dataplane, source,
// socket. Whatever fails on the way takes back what came before it. Floor 5.
import { existsSync, readFileSync } from 'node:fs';
import { adopt } from '../dataplane/bpf/adopt.ts';
import { attach } from '../dataplane/bpf/attach.ts';
import { readReasons } from '../dataplane/bpf/counters.ts';
import { createBpfDataplane } from '../dataplane/bpf/dataplane.ts';
import { kernelTables } from '../dataplane/bpf/kernel.ts';
import type { Tables } from '../dataplane/bpf/tables.ts';
import { backendViews, frontendViews } from '../dataplane/bpf/view.ts';
import { FairleadError } from '../errors.ts';
import type { Logger } from '../log.ts';
import type { Rejection } from '../model/types.ts';
import { createPlanner } from '../plan/planner.ts';
import type { Plan, PlanSettings } from '../plan/types.ts';
import { openManifests } from '../source/manifests.ts';
import { interfaceAddresses } from '../sys/addresses.ts';
import { waitGracePeriod } from '../sys/native.ts';
import { bpfObjectPath, packageVersion } from '../sys/package.ts';
import { type Agent, createAgent } from './agent.ts';
import { checkCgroupRoot, checkKernel, checkRunDir } from './checks.ts';
import { createProblemLog } from './problem-log.ts';
import { backendRows, serviceRows } from './report.ts';
import { serveSocket } from './socket.ts';
import { problemsOf, type SourceStatus, statusOf } from './status.ts';

export interface InstanceSettings {
  readonly plan: PlanSettings;
  readonly manifestsDir: string;
  readonly cgroupRoot: string | undefined;
  readonly bpfRoot: string;
  readonly runDir: string;
  /** max_entries by map name. */
  readonly mapSizes: Readonly<Record<string, number>>;
  readonly auditIntervalMs: number;
}

export interface Instance {
  readonly agent: Agent;
  /** Lets go of everything; programs, links and maps stay and traffic flows on. Idempotent. */
  stop(): Promise<void>;
}

const ADDRESS_INTERVAL_MS = 5_000;
const OBJECT = 'sock.bpf.o';

/** Throws FairleadError; then nothing is left attached that was not there before. */
export async function startInstance(settings: InstanceSettings, log: Logger): Promise<Instance> {
  const startedAt = new Date();
  const version = packageVersion();
  const { plan: planSettings, bpfRoot, runDir } = settings;
  checkKernel();
  const cgroup = checkCgroupRoot(settings.cgroupRoot);
  checkManifestsDir(settings.manifestsDir);
  checkRunDir(runDir);
  // The socket first: two agents on one instance must not both reach the kernel.
  const routes: Record<string, () => unknown> = {
    '/v1/status': () => ({ pid: process.pid, isReady: false }),
  };
  const socket = await serveSocket(runDir, routes);
  const undo: (() => void | Promise<void>)[] = [() => socket.close()];
  const stop = async (): Promise<void> => {
    for (const step of undo.splice(0).reverse()) await step();
  };
  try {
    const attached = attach({
      object: readObject(),
      bpfRoot,
      cgroupRoot: cgroup.path,
      cgroupLevel: cgroup.level,
      sizes: settings.mapSizes,
    });
    undo.push(() => attached.close());
    const takenOver = attached.hooks.filter((hook) => hook.isTakenOver).length;
    log.info(
      {
        version,
        node: planSettings.nodeName,
        cgroupRoot: cgroup.path,
        bpfRoot,
        hooks: attached.hooks.length,
        takenOver,
      },
      'attached',
    );
    const tables = kernelTables(attached.map);
    const dataplane = createBpfDataplane(tables, waitGracePeriod);
    undo.push(() => dataplane.close());
    let tell: (plan: Plan) => void = () => {};
    const agent = createAgent({
      planner: createPlanner(planSettings),
      dataplane,
      log,
      localAddresses: interfaceAddresses,
      auditIntervalMs: settings.auditIntervalMs,
      addressIntervalMs: ADDRESS_INTERVAL_MS,
      onPlan: (plan) => tell(plan),
    });
    undo.push(() => agent.stop());
    const manifests = await openManifests(settings.manifestsDir, {
      onChanges: (changes) => agent.accept(changes),
      onSynced: () => agent.sourceSynced(),
      onProblems: () => tell(currentPlan()),
    });
    undo.push(() => manifests.close());
    const currentPlan = (): Plan => agent.state().plan ?? NO_PLAN;
    const source = (): SourceStatus => ({
      kind: 'manifests',
      location: settings.manifestsDir,
      problems: manifests.problems(),
      locate: (ref, field) => manifests.locate(ref, field),
    });
    const problemLog = createProblemLog(log);
    let lastRejections: readonly Rejection[] | undefined;
    tell = (plan) => {
      if (plan.rejections === lastRejections && manifests.problems().length === 0) return;
      lastRejections = plan.rejections;
      problemLog(problemsOf(source(), plan.rejections));
    };
    Object.assign(routes, {
      '/v1/status': () =>
        statusOf({
          version,
          node: planSettings.nodeName,
          startedAt,
          cgroupRoot: cgroup.path,
          bpfRoot,
          attached,
          dataplane,
          source: source(),
          state: agent.state(),
          reasons: readReasons(attached.map('fl_reason')),
        }),
      ...kernelRoutes(tables, () => agent.state().plan),
    });
    return { agent, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
const NO_PLAN: Plan = {
  services: new Map(),
  nodePortAddresses: { IPv4: 'all', IPv6: 'all' },
  detector: { IPv4: undefined, IPv6: undefined },
  rejections: [],
};

/** The kernel is read anew for each answer: what is shown is what is there. */
function kernelRoutes(tables: Tables, plan: () => Plan | undefined): Record<string, () => unknown> {
  return {
    '/v1/services': () => serviceRows(plan(), frontendViews(adopt(tables).ledger)),
    '/v1/backends': () => backendRows(plan(), backendViews(adopt(tables).ledger)),
  };
}

function checkManifestsDir(dir: string): void {
  if (!existsSync(dir)) {
    throw new FairleadError(
      'NO_MANIFESTS',
      `--manifests ${dir} does not exist: make it, or name a folder of Service, EndpointSlice and Node manifests`,
    );
  }
}

function readObject(): Uint8Array {
  const path = bpfObjectPath(OBJECT);
  if (!existsSync(path)) {
    throw new FairleadError('NO_OBJECT', `${path} is missing: build it with \`npm run build:bpf\``);
  }
  return readFileSync(path);
}
