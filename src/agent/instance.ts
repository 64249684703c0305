// SPDX-License-Identifier: Apache-2.0
// One instance from its settings to a running agent, in reading order: checks, socket, kernel, agent,
// source. Whatever fails on the way takes back what came before it.
import { existsSync, readFileSync } from 'node:fs';
import { type BpfDataplane, createBpfDataplane } from '../dataplane/bpf/dataplane.ts';
import { backendViews, frontendConnections, frontendViews } from '../dataplane/bpf/inspect/view.ts';
import { type Attached, type AttachOptions, attachAsync } from '../dataplane/bpf/loader/attach.ts';
import { lockPins } from '../dataplane/bpf/loader/lock.ts';
import { readReasons } from '../dataplane/bpf/maps/counters.ts';
import { kernelTables } from '../dataplane/bpf/maps/kernel.ts';
import { nameOf } from '../dataplane/bpf/maps/names.ts';
import { adopt } from '../dataplane/bpf/sync/adopt.ts';
import { FairleadError } from '../errors.ts';
import type { Logger } from '../log.ts';
import type { Rejection } from '../model/types.ts';
import { explained } from '../observe/answer.ts';
import { backendRows, serviceRows } from '../observe/report.ts';
import { problemsOf, statusOf, tableFill } from '../observe/status.ts';
import { createPlanner } from '../plan/planner.ts';
import type { PlanSettings } from '../plan/types.ts';
import { type Routes, serveSocket } from '../server/admin-socket.ts';
import type { KubeEvent } from '../server/events/event.ts';
import type { EventSender } from '../server/events/recorder.ts';
import type { AgentReaders, ServiceConnections } from '../server/metrics/readings.ts';
import { openServers, type Servers, type ServersSettings } from '../server/servers.ts';
import { interfaceAddresses } from '../sys/addresses.ts';
import { waitGracePeriod } from '../sys/native.ts';
import { bpfObjectPath, packageVersion } from '../sys/package.ts';
import { type Agent, type AgentState, createAgent } from './agent.ts';
import {
  type CgroupRoot,
  checkCgroupRoot,
  checkKernel,
  checkRunDir,
  namingCapabilities,
} from './checks.ts';
import { createProblemLog } from './problem-log.ts';
import type { OpenSource, Source, SourceListener } from './source.ts';

export interface InstanceSettings {
  readonly plan: PlanSettings;
  readonly openSource: OpenSource;
  readonly cgroupRoot: string | undefined;
  readonly bpfRoot: string;
  readonly runDir: string;
  /** max_entries by map name. */
  readonly mapSizes: Readonly<Record<string, number>>;
  readonly auditIntervalMs: number;
  readonly servers: ServersSettings;
  /** Services with counters of their own on /metrics. */
  readonly metricsTopServices: number;
}

export interface Instance {
  readonly agent: Agent;
  readonly configWritten: Servers['configWritten'];
  /** Lets go of everything; programs, links and maps stay and traffic flows on. Idempotent. */
  stop(): void;
}

const ADDRESS_INTERVAL_MS = 5_000;
const OBJECT = 'sock.bpf.o';

interface Running {
  readonly settings: InstanceSettings;
  readonly startedAt: Date;
  readonly cgroup: CgroupRoot;
  readonly attached: Attached;
  readonly dataplane: BpfDataplane;
  readonly agent: Agent;
  readonly source: Source;
}

/** Throws FairleadError; then nothing is left attached that was not there before. */
export async function startInstance(settings: InstanceSettings, log: Logger): Promise<Instance> {
  const startedAt = new Date();
  checkKernel();
  const cgroup = checkCgroupRoot(settings.cgroupRoot);
  checkRunDir(settings.runDir);
  const closers: { close(): void }[] = [];
  const stop = (): void => {
    for (const { close } of closers.splice(0).reverse()) close();
  };
  try {
    let running: Running | undefined;
    const events = sendEventsLater();
    // The socket and the lock first: two agents of one instance must not both reach the kernel.
    closers.push(
      await serveSocket(
        settings.runDir,
        routes(() => running),
      ),
    );
    const { bpfRoot, runDir, plan } = settings;
    closers.push(lockPins(bpfRoot, { command: 'agent', nodeName: plan.nodeName, runDir }));
    const attached = await attachSockets(settings, cgroup, log);
    closers.push(attached);
    const dataplane = createBpfDataplane(kernelTables(attached.map), waitGracePeriod);
    closers.push(dataplane);
    const servers = await openServers({
      settings: settings.servers,
      readers: readersOf(settings, () => running),
      sender: events.sender,
      log,
    });
    closers.push(servers);
    const noteProblems = createProblemLog(log);
    let lastRejections: readonly Rejection[] | undefined;
    const tellProblems = (): void => {
      if (running === undefined) return;
      noteProblems(problemsOf(running.source, running.agent.state().plan?.rejections ?? []));
    };
    const agent = createAgent({
      planner: createPlanner(settings.plan),
      dataplane,
      log,
      localAddresses: interfaceAddresses,
      auditIntervalMs: settings.auditIntervalMs,
      addressIntervalMs: ADDRESS_INTERVAL_MS,
      onPlan: ({ rejections }) => {
        // The identical list until something is refused or mended: most changes do neither.
        if (rejections === lastRejections) return;
        lastRejections = rejections;
        tellProblems();
      },
      onSync: (facts) => servers.synced(facts),
    });
    closers.push({ close: () => agent.stop() });
    const source = settings.openSource(listenerOf(agent, servers, tellProblems));
    closers.push(source);
    running = { settings, startedAt, cgroup, attached, dataplane, agent, source };
    events.connect(source);
    tellProblems();
    return { agent, configWritten: servers.configWritten, stop };
  } catch (error) {
    stop();
    throw error;
  }
}

/** What happens on the way up, a port that is taken for one, waits for a source to be sent to. */
function sendEventsLater(): { readonly sender: EventSender; connect(source: Source): void } {
  let connect: (source: Source) => void = () => undefined;
  const connected = new Promise<Source>((resolve) => {
    connect = resolve;
  });
  const post = async (event: KubeEvent): Promise<void> => {
    const source = await connected;
    // A folder of manifests takes no events.
    await source.post?.(
      `/apis/events.k8s.io/v1/namespaces/${event.metadata.namespace}/events`,
      event,
    );
  };
  return { sender: { post }, connect };
}

function listenerOf(agent: Agent, servers: Servers, onProblems: () => void): SourceListener {
  return {
    onChanges: (changes) => {
      servers.arrived(changes);
      agent.accept(changes);
    },
    onSynced: () => agent.sourceSynced(),
    onRequest: servers.requested,
    onProblems,
  };
}

async function attachSockets(
  settings: InstanceSettings,
  cgroup: CgroupRoot,
  log: Logger,
): Promise<Attached> {
  const attached = await attachNaming({
    object: readObject(),
    bpfRoot: settings.bpfRoot,
    cgroupRoot: cgroup.path,
    sizes: settings.mapSizes,
  });
  const fields = {
    version: packageVersion(),
    node: settings.plan.nodeName,
    cgroupRoot: cgroup.path,
    bpfRoot: settings.bpfRoot,
    hooks: attached.hooks.length,
    takenOver: attached.hooks.filter((hook) => hook.isTakenOver).length,
  };
  log.info(fields, 'attached');
  return attached;
}

async function attachNaming(options: AttachOptions): Promise<Attached> {
  try {
    return await attachAsync(options);
  } catch (error) {
    throw namingCapabilities(error);
  }
}

/** The kernel is read anew for each answer: what is shown is what is there. */
function routes(running: () => Running | undefined): Routes {
  const answer =
    (build: (instance: Running, query: URLSearchParams) => unknown, early: unknown) =>
    (query: URLSearchParams): unknown => {
      const instance = running();
      return instance === undefined ? early : build(instance, query);
    };
  return {
    '/v1/status': answer(statusOfInstance, { pid: process.pid, isReady: false }),
    '/v1/services': answer(
      ({ dataplane, agent }) =>
        serviceRows(agent.state().plan, frontendViews(adopt(dataplane.ledger.tables).ledger)),
      [],
    ),
    '/v1/backends': answer(
      ({ dataplane, agent }) =>
        backendRows(agent.state().plan, backendViews(adopt(dataplane.ledger.tables).ledger)),
      [],
    ),
    '/v1/audit': answer(({ agent }) => ({ drift: agent.audit() }), {}),
    '/v1/explain': answer(
      ({ agent }, query) =>
        explained(
          agent.state().plan,
          interfaceAddresses().map(({ address }) => address),
          query,
        ),
      {},
    ),
  };
}

/** Everything /metrics reads when it is asked. */
function readersOf(settings: InstanceSettings, running: () => Running | undefined): AgentReaders {
  const state = (): AgentState | undefined => running()?.agent.state();
  return {
    version: packageVersion(),
    engine: () => 'bpf',
    isReady: () => state()?.isReady ?? false,
    plan: () => state()?.plan,
    sourceProblems: () => running()?.source.problems() ?? [],
    tables: () => {
      const instance = running();
      return instance === undefined ? [] : tableFill(instance.dataplane);
    },
    failedEntries: () => state()?.failed.length ?? 0,
    driftTotal: () => state()?.driftTotal ?? 0,
    lastAuditAt: () => state()?.lastAuditAt,
    watchAgesMs: () => watchAges(running()?.source),
    reasons: () => {
      const instance = running();
      return instance === undefined ? {} : readReasons(instance.attached.map('fl_reason'));
    },
    topServices: settings.metricsTopServices,
    serviceConnections: () => serviceConnections(running()?.dataplane),
  };
}

function watchAges(source: Source | undefined): Readonly<Record<string, number>> {
  const watches = source?.cluster?.().watches ?? [];
  return Object.fromEntries(
    watches.flatMap(({ kind, aliveAgeMs }) =>
      aliveAgeMs === undefined ? [] : [[kind, aliveAgeMs]],
    ),
  );
}

function* serviceConnections(dataplane: BpfDataplane | undefined): Generator<ServiceConnections> {
  if (dataplane === undefined) return;
  for (const { port, service, family, connections } of frontendConnections(dataplane.ledger)) {
    const [namespace = '', name = ''] = service.split('/');
    const { name: portName, protocol } = nameOf(port);
    const label = portName.split(':')[1] ?? '';
    yield { namespace, service: name, port: label, protocol, family, connections };
  }
}

function statusOfInstance(running: Running): unknown {
  const { settings, startedAt, cgroup, attached, dataplane, agent, source } = running;
  return statusOf({
    version: packageVersion(),
    node: settings.plan.nodeName,
    startedAt,
    cgroupRoot: cgroup.path,
    bpfRoot: settings.bpfRoot,
    attached,
    dataplane,
    source,
    state: agent.state(),
    reasons: readReasons(attached.map('fl_reason')),
  });
}

function readObject(): Uint8Array {
  const path = bpfObjectPath(OBJECT);
  if (!existsSync(path)) {
    throw new FairleadError('NO_OBJECT', `${path} is missing: build it with \`npm run build:bpf\``);
  }
  return readFileSync(path);
}
