// SPDX-License-Identifier: Apache-2.0
// One instance from its settings to a running agent, composed in the order of its parts: admin socket,
// dataplane, agent, servers, source. Whatever fails on the way takes back what came before it.
import type { Dataplane, OpenDataplane } from '../dataplane/dataplane.ts';
import type { Logger } from '../log.ts';
import type { ObjectChange, Rejection } from '../model/types.ts';
import { problemsOf } from '../observe/status.ts';
import { createPlanner } from '../plan/planner.ts';
import type { PlanSettings } from '../plan/types.ts';
import { serveSocket } from '../server/admin-socket.ts';
import type { EventSender } from '../server/events/recorder.ts';
import { openServers, type Servers, type ServersSettings } from '../server/servers.ts';
import type { Source } from '../source/source.ts';
import { interfaceAddresses } from '../sys/addresses.ts';
import { packageVersion } from '../sys/package.ts';
import { type Agent, createAgent } from './agent.ts';
import { checkRunDir } from './checks.ts';
import { withNodeWarning } from './own-node.ts';
import { createProblemLog } from './problem-log.ts';
import { readersOf } from './readers.ts';
import { routesOf, STARTING_ROUTES } from './routes.ts';

export interface InstanceSettings {
  readonly plan: PlanSettings;
  readonly source: Source;
  readonly openDataplane: OpenDataplane;
  readonly runDir: string;
  readonly auditIntervalMs: number;
  readonly servers: ServersSettings;
  /** Services with counters of their own on /metrics. */
  readonly metricsTopServices: number;
}

export interface Instance {
  readonly agent: Agent;
  readonly configWritten: Servers['configWritten'];
  /** Lets go of everything; what is programmed stays and traffic flows on. Idempotent. */
  stop(): void;
}

const ADDRESS_INTERVAL_MS = 5_000;

/** Throws FairleadError; then nothing is left programmed that was not there before. */
export async function startInstance(settings: InstanceSettings, log: Logger): Promise<Instance> {
  const closers: { close(): void }[] = [];
  const stop = (): void => {
    for (const part of closers.splice(0).reverse()) part.close();
  };
  try {
    return await compose(settings, log, { closers, stop });
  } catch (error) {
    stop();
    throw error;
  }
}

interface Lifetime {
  /** Grows by what was opened, in that order. */
  readonly closers: { close(): void }[];
  readonly stop: () => void;
}

async function compose(
  settings: InstanceSettings,
  log: Logger,
  { closers, stop }: Lifetime,
): Promise<Instance> {
  const startedAt = new Date();
  const { source } = settings;
  checkRunDir(settings.runDir);
  // The socket first: two agents of one --run-dir must not both reach a dataplane.
  const admin = await serveSocket(settings.runDir, STARTING_ROUTES);
  closers.push(admin);
  const dataplane = await settings.openDataplane();
  closers.push(dataplane);
  logAttached(dataplane, settings.plan.nodeName, log);
  const agent = createAgent({
    planner: createPlanner(settings.plan),
    dataplane,
    log,
    localAddresses: interfaceAddresses,
    auditIntervalMs: settings.auditIntervalMs,
    addressIntervalMs: ADDRESS_INTERVAL_MS,
  });
  closers.push({ close: () => agent.stop() });
  const servers = await openServers({
    settings: settings.servers,
    readers: readersOf({ agent, dataplane, source }, settings.metricsTopServices),
    sender: senderTo(source),
    log,
  });
  closers.push(servers);
  admin.serve(routesOf({ node: settings.plan.nodeName, startedAt, dataplane, agent, source }));
  closers.push(source);
  start(source, { agent, servers, nodeName: settings.plan.nodeName, log });
  return { agent, configWritten: servers.configWritten, stop };
}

/** From here on changes flow: source -> servers (they are pending) -> agent -> dataplane. */
function start(
  source: Source,
  {
    agent,
    servers,
    nodeName,
    log,
  }: {
    readonly agent: Agent;
    readonly servers: Servers;
    readonly nodeName: string;
    readonly log: Logger;
  },
): void {
  const noteProblems = createProblemLog(log);
  const tellProblems = (): void =>
    noteProblems(problemsOf(source, agent.state().plan?.rejections ?? []));
  let lastRejections: readonly Rejection[] | undefined;
  agent.listen({
    onPlan: ({ rejections }) => {
      // The identical list until something is rejected or valid again: most changes do neither.
      if (rejections === lastRejections) return;
      lastRejections = rejections;
      tellProblems();
    },
    onSync: (facts) => servers.synced(facts),
  });
  const listener = {
    onChanges: (changes: readonly ObjectChange[]) => {
      servers.arrived(changes);
      agent.accept(changes);
    },
    onSynced: () => agent.sourceSynced(),
    onRequest: servers.requested,
    onProblems: tellProblems,
  };
  source.start(withNodeWarning(listener, nodeName, log));
  tellProblems();
}

/** A folder of manifests takes no events. */
const senderTo = (source: Source): EventSender => ({
  post: async (event) =>
    source.post?.(`/apis/events.k8s.io/v1/namespaces/${event.metadata.namespace}/events`, event),
});

function logAttached({ installation }: Dataplane, node: string, log: Logger): void {
  const { hooks, cgroupRoot, bpfRoot } = installation;
  const fields = {
    version: packageVersion(),
    node,
    cgroupRoot,
    bpfRoot,
    hooks: hooks.length,
    takenOver: hooks.filter(({ isTakenOver }) => isTakenOver).length,
  };
  log.info(fields, 'attached');
}
