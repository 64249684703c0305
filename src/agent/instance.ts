// SPDX-License-Identifier: Apache-2.0
// Composes a running instance from its settings: admin socket, dataplane, agent, servers, source. If one of
// them fails to start, those before it are closed.
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ComposedDataplane, Dataplane } from '../dataplane/dataplane.ts';
import type { Predecessor } from '../dataplane/predecessor.ts';
import type { Logger } from '../log.ts';
import type { ObjectChange, Rejection } from '../model/types.ts';
import { problemsOf } from '../observe/status.ts';
import { createPlanner } from '../plan/planner.ts';
import type { PlanSettings } from '../plan/types.ts';
import { serveSocket } from '../server/admin-socket.ts';
import type { EventSender } from '../server/events/recorder.ts';
import { openServers, type Servers, type ServersSettings } from '../server/servers.ts';
import type { Source } from '../source/source.ts';
import { SYSTEM_CLOCK } from '../sys/clock.ts';
import { deleteConntrack, readConntrack } from '../sys/conntrack/table.ts';
import { followNetwork, type NetworkFollower } from '../sys/netlink/follow.ts';
import { type NodeAddresses, nodeAddressesOf } from '../sys/netlink/node-addresses.ts';
import { packageVersion } from '../sys/package.ts';
import { type Agent, createAgent } from './agent.ts';
import { type ConntrackCleaner, createConntrackCleaner } from './conntrack/cleaner.ts';
import { createEarlyListener, type EarlyListener } from './early-listener.ts';
import { createHandOver } from './hand-over/hand-over.ts';
import { withNodeWarning } from './own-node.ts';
import { checkRunDir } from './preflight/checks.ts';
import { createProblemLog } from './problem-log.ts';
import { readersOf } from './readers.ts';
import { routesOf, STARTING_ROUTES } from './routes.ts';

/** @param network the devices and addresses of the node, which the caller closes after the dataplane */
export type OpenDataplane = (network: NetworkFollower) => Promise<ComposedDataplane>;

export interface InstanceSettings {
  readonly plan: PlanSettings;
  readonly source: Source;
  readonly openDataplane: OpenDataplane;
  /** All engines: those that this agent does not run may have been run by an earlier one. */
  readonly predecessors: readonly Predecessor[];
  readonly runDir: string;
  readonly auditIntervalMs: number;
  readonly servers: ServersSettings;
  /** Services with counters of their own on /metrics. */
  readonly metricsTopServices: number;
}

export interface Instance {
  readonly agent: Agent;
  readonly configWritten: Servers['configWritten'];
  /** Closes everything; the programmed state is kept and serves traffic. Idempotent. */
  stop(): void;
}

/** Throws FairleadError, after closing what it opened; hooks that are attached already stay, as after a stop. */
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
  /** In the order in which they were opened. */
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
  // The socket comes first: of two agents with one --run-dir only one may open the dataplane.
  const admin = await serveSocket(settings.runDir, STARTING_ROUTES);
  closers.push(admin);
  const network = followNetwork();
  closers.push(network);
  const addresses = nodeAddressesOf(network);
  const early = createEarlyListener();
  const opening = settings.openDataplane(network);
  const dataplane = await openBeside(opening, settings.source, { early, closers });
  logAttached(dataplane, settings.plan.nodeName, log);
  const agent = createAgent({
    planner: createPlanner(settings.plan),
    dataplane,
    log,
    addresses,
    auditIntervalMs: settings.auditIntervalMs,
  });
  closers.push({ close: () => agent.stop() });
  const servers = await openServers({
    settings: settings.servers,
    readers: readersOf({ agent, dataplane, source }, settings.metricsTopServices),
    sender: senderTo(source),
    localAddresses: () => addresses.current().map(({ address }) => address),
    log,
  });
  closers.push(servers);
  const cleaner = conntrackCleaner(addresses, servers, log);
  closers.push(cleaner);
  agent.listen({ onSync: (facts) => cleaner.synced(facts) });
  handOver(settings.predecessors, dataplane, { agent, closers, log });
  admin.serve(
    routesOf({ node: settings.plan.nodeName, startedAt, dataplane, agent, source, addresses }),
  );
  start(source, early, { agent, servers, nodeName: settings.plan.nodeName, log });
  return { agent, configWritten: servers.configWritten, stop };
}

/** From the engines that this agent does not run. */
function handOver(
  predecessors: readonly Predecessor[],
  { dataplanes }: ComposedDataplane,
  {
    agent,
    closers,
    log,
  }: Pick<Lifetime, 'closers'> & { readonly agent: Agent; readonly log: Logger },
): void {
  const running = new Set(dataplanes.map(({ dataplane }) => dataplane));
  for (const predecessor of predecessors.filter(({ engine }) => !running.has(engine))) {
    const ending = createHandOver(predecessor, log);
    closers.push(ending);
    agent.listen({ onSync: (facts) => ending.synced(facts) });
  }
}

/** The source is read while the kernel checks the programs, but not before what refuses a start at once. */
async function openBeside(
  opening: Promise<ComposedDataplane>,
  source: Source,
  { early, closers }: Pick<Lifetime, 'closers'> & { readonly early: EarlyListener },
): Promise<ComposedDataplane> {
  await Promise.race([opening, nextTurn()]);
  closers.push(source);
  source.start(early.listener);
  const dataplane = await opening;
  closers.push(dataplane);
  return dataplane;
}

/** Changes flow from the source to the servers, which count them as pending, the agent and the dataplane. */
function start(
  source: Source,
  early: EarlyListener,
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
  const logProblems = (): void =>
    noteProblems(problemsOf(source, agent.state().plan?.rejections ?? []));
  let lastRejections: readonly Rejection[] | undefined;
  agent.listen({
    onPlan: ({ rejections }) => {
      // The planner returns the same list as long as no rejection is added or cleared.
      if (rejections === lastRejections) return;
      lastRejections = rejections;
      logProblems();
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
    onProblems: logProblems,
  };
  // The source reports the problems of all kinds together, once it has had time to meet them.
  void early.passTo(withNodeWarning(listener, nodeName, log));
}

const conntrackCleaner = (
  addresses: NodeAddresses,
  { conntrackCleaned }: Servers,
  log: Logger,
): ConntrackCleaner =>
  createConntrackCleaner({
    read: readConntrack,
    remove: deleteConntrack,
    localAddresses: () => addresses.current().map(({ address }) => address),
    clock: SYSTEM_CLOCK,
    log,
    onCleaned: conntrackCleaned,
  });

/** A folder of manifests does not accept events. */
const senderTo = (source: Source): EventSender => ({
  post: async (event) =>
    source.post?.(`/apis/events.k8s.io/v1/namespaces/${event.metadata.namespace}/events`, event),
});

function logAttached({ installation }: Dataplane, node: string, log: Logger): void {
  const { hooks, cgroupRoot, bpfRoot, iptables } = installation;
  const fields = {
    version: packageVersion(),
    node,
    cgroupRoot,
    bpfRoot,
    iptables: iptables?.variant,
    hooks: hooks.length,
    adopted: hooks.filter(({ isAdopted }) => isAdopted).length,
  };
  log.info(fields, 'attached');
}
