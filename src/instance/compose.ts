// SPDX-License-Identifier: Apache-2.0
// Composes a running agent from its settings: admin socket, dataplane, agent, servers, source.
import { rmSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Agent, createAgent } from '../agent/agent.ts';
import { type ConntrackCleaner, createConntrackCleaner } from '../agent/conntrack/cleaner.ts';
import { followNodeSockets } from '../agent/node-sockets/follow.ts';
import { createProblemLog } from '../agent/problem-log.ts';
import { lastGoodPath } from '../config/instance-paths.ts';
import type { ComposedDataplane } from '../engines/dataplane.ts';
import type { Predecessor } from '../engines/predecessor.ts';
import type { Installation } from '../engines/snapshot.ts';
import { reasonOf } from '../errors.ts';
import type { Logger } from '../log.ts';
import type { Problem } from '../model/problem.ts';
import type { ObjectChange, Rejection } from '../model/types.ts';
import { problemsOf } from '../observe/status.ts';
import type { Finding } from '../on-node/finding.ts';
import { createPlanner } from '../plan/planner.ts';
import type { PlanSettings } from '../plan/types.ts';
import { type AgentSocket, type InheritedLock, serveSocket } from '../server/admin-socket.ts';
import type { EventSender } from '../server/events/recorder.ts';
import type { ListenerPool } from '../server/http/listener-pool.ts';
import { writeInstance } from '../server/instance-file.ts';
import type { Servers, ServersSettings } from '../server/servers.ts';
import type { Source } from '../source/source.ts';
import { SYSTEM_CLOCK } from '../sys/clock.ts';
import { deleteConntrack, readConntrack } from '../sys/conntrack/conntrack-table.ts';
import { followNetwork } from '../sys/netlink/follow.ts';
import { listenersOf } from '../sys/netlink/listeners.ts';
import type { NetworkFollower } from '../sys/netlink/network.ts';
import {
  type NodeAddresses,
  nodeAddressesOf,
  withoutAddresses,
} from '../sys/netlink/node-addresses.ts';
import { packageVersion } from '../sys/package.ts';
import { remembering } from './capture.ts';
import { createDirectReturn } from './direct-return/direct-return.ts';
import { createEarlyListener, type EarlyListener } from './early-listener.ts';
import { createHandOvers, othersOf } from './hand-over/hand-overs.ts';
import type { HistoryFollower, HistorySettings } from './history/open.ts';
import type { HostRulesFollower, HostRulesSettings } from './host-rules/host-rules.ts';
import { hostRulesOf, takesPacketsBack } from './host-rules/open.ts';
import { openObservers } from './observers.ts';
import { type OnNodeSettings, openOnNode } from './on-node/open.ts';
import { withNodeWarning } from './own-node.ts';
import { checkRunDir } from './preflight/checks.ts';
import { freezable, readersOf } from './readers.ts';
import { routesOf, STARTING_ROUTES } from './routes.ts';
import { whenServing } from './serving.ts';
import type { ShadowSettings } from './shadow/open.ts';

/** @param network the devices and addresses of the node, which the caller closes after the dataplane */
export type OpenDataplane = (network: NetworkFollower) => Promise<ComposedDataplane>;

export interface InstanceSettings {
  readonly plan: PlanSettings;
  /** Made anew for each start: one that was closed cannot be started again. */
  readonly openSource: () => Source;
  /** Of the start, shown by `status`; it may still grow. */
  readonly warnings?: readonly Problem[];
  readonly openDataplane: OpenDataplane;
  /** All engines: those that this agent does not run may have been run by an earlier one. */
  readonly predecessors: readonly Predecessor[];
  readonly runDir: string;
  /** Noted in runDir for commands that read pins; absent: it is not. */
  readonly bpfRoot?: string;
  /** Those of the start, noted with it; files by their whole paths. */
  readonly flags?: Readonly<Record<string, string>>;
  readonly auditIntervalMs: number;
  readonly servers: ServersSettings;
  /** Services with counters of their own on /metrics. */
  readonly metricsTopServices: number;
  /** undefined: packets are served as they are whatever filters the node has. */
  readonly hostRules?: HostRulesSettings | undefined;
  /** Nothing is served: the plan is compared with the rules of another proxy. */
  readonly shadow?: ShadowSettings | undefined;
  /** undefined: what is programmed is not recorded. */
  readonly history?: HistorySettings | undefined;
  /** Where the CNI has its files, and the bit by which rules say "masquerade". */
  readonly onNode: OnNodeSettings;
}

export interface ComposeParts {
  /** In the order in which they were opened; also of a start that fails. */
  readonly closers: { close(): void }[];
  /** What listens already, if this agent comes in place of another one. */
  readonly pool: ListenerPool;
  /** Of the admin socket; an earlier agent's, or that of this one's earlier start. */
  readonly inheritedLock: InheritedLock;
  /** Called before the first lock is taken; until then the source alone is open. */
  readonly beforeLocks: (source: SourceProgress) => Promise<void>;
  /** Called once: the initial sync is complete, and the health check ports of its Services are known. */
  readonly onServing: () => void;
  readonly log: Logger;
}

export interface SourceProgress {
  /** Starts the source; resolves when it has delivered complete lists. */
  lists(): Promise<void>;
}

export interface Composed {
  readonly admin: AgentSocket;
  readonly installation: Installation;
  readonly dataplane: Pick<ComposedDataplane, 'serveOn' | 'drain'>;
  readonly configWritten: Servers['configWritten'];
  /** From now on metrics show what they showed last. */
  readonly freeze: () => void;
}

/** Throws FairleadError; hooks that are attached already stay, as after a stop. */
export async function compose(
  settings: InstanceSettings,
  { closers, pool, inheritedLock, beforeLocks, onServing, log }: ComposeParts,
): Promise<Composed> {
  const startedAt = new Date();
  checkRunDir(settings.runDir);
  const early = createEarlyListener();
  const source = startable(settings.openSource(), early, closers);
  await beforeLocks(source);
  // The socket comes first: of two agents with one --run-dir only one may open the dataplane.
  const admin = await serveSocket(settings.runDir, STARTING_ROUTES, inheritedLock);
  closers.push(admin);
  noteInstance(settings, log);
  // What a folder had is out of date once another source has been served.
  if (source.source.judged === undefined) rmSync(lastGoodPath(settings.runDir), { force: true });
  const network = followNetwork();
  closers.push(network);
  const opening = settings.openDataplane(network);
  // Its modules take some 20 ms to load: while the kernel verifies programs.
  const serversModule = import('../server/servers.ts');
  const dataplane = await openBeside(opening, source, closers);
  logAttached(dataplane, settings.plan.nodeName, log);
  const others = othersOf(settings.predecessors, dataplane);
  const addresses = withoutAddresses(
    nodeAddressesOf(network),
    others.flatMap((one) => one.addresses?.() ?? []),
  );
  let hostRules: HostRulesFollower | undefined;
  const agent = createAgent({
    beforeSync: async (plan) => void (await hostRules?.check(plan)),
    planner: createPlanner(settings.plan, {
      awaitsNodes: source.source.followNodes !== undefined,
      nowMs: () => SYSTEM_CLOCK.nowMs(),
      onJudged: (changes, refused) => source.source.judged?.(changes, refused),
    }),
    dataplane,
    heldByOthers: others.map(({ held }) => held),
    log,
    addresses,
    auditIntervalMs: settings.auditIntervalMs,
  });
  closers.push({ close: () => agent.stop() });
  let servers: Servers | undefined;
  const { shadow, history, verify } = openObservers(settings, {
    ...{ agent, dataplane, source: source.source, addresses, closers, log },
    onShadow: (view) => servers?.shadowSeen(view),
  });
  const nodeSockets = followNodeSockets({
    ...{ addresses, read: listenersBeside(dataplane), clock: SYSTEM_CLOCK, log },
    tell: (sockets) => {
      agent.nodeHas(sockets);
      shadow?.nodeHas(sockets);
      verify?.nodeHas(sockets);
    },
  });
  closers.push(nodeSockets);
  const directReturn = createDirectReturn({
    ...{ nodeName: settings.plan.nodeName, clock: SYSTEM_CLOCK, log },
    source: shadow === undefined ? source.source : {},
    isAble: () => dataplane.capabilities.directReturn,
    hadFlows: dataplane.hadDirectReturn(),
  });
  closers.push(directReturn);
  agent.listen({
    onPlan: (plan) => {
      directReturn.planned(plan);
      nodeSockets.planned(plan);
    },
    onSync: ({ plan, isComplete }) => directReturn.synced(plan, isComplete),
  });
  const parts = { agent, dataplane, source: source.source };
  const more = (): readonly Finding[] => hostRules?.findings() ?? [];
  const onNode = openOnNode(settings.onNode, { network, agent, dataplane, more, log });
  closers.push(onNode);
  const { readers, freeze } = freezable(
    readersOf(parts, { topServices: settings.metricsTopServices, onNode, shadow, history }),
  );
  const { openServers } = await serversModule;
  servers = await openServers({
    settings: { ...settings.servers, hasServiceHealth: shadow === undefined },
    readers,
    sender: remembering(senderTo(source.source)),
    localAddresses: () => addresses.current().map(({ address }) => address),
    listen: pool.listen,
    log,
  });
  closers.push(servers);
  const packets = takesPacketsBack(dataplane);
  agent.listen({ onSync: packets.synced });
  onNode.onBroken((fresh) => servers.nodeConflicts(fresh));
  const cleaner = conntrackCleaner(addresses, servers, log);
  closers.push(cleaner);
  // A port map translates no packet, and its agent may not read the table.
  if (dataplane.capabilities.relays !== 'port-map' && shadow === undefined) {
    agent.listen({ onSync: (facts) => cleaner.synced(facts) });
    adoptFlows(dataplane, cleaner, log);
  }
  if (shadow !== undefined) agent.listen({ onSync: () => shadow.planned() });
  const handOvers = createHandOvers(settings.predecessors, dataplane, log);
  closers.push(handOvers);
  agent.listen({ onSync: (facts) => handOvers.synced(facts) });
  hostRules = hostRulesOf(settings.hostRules, dataplane, {
    ...{ agent, addresses, onNode, log, parts: [packets, handOvers, directReturn, servers] },
  });
  if (hostRules !== undefined) closers.push(hostRules);
  admin.serve(
    routesOf({
      ...{ node: settings.plan.nodeName, startedAt, addresses, onNode, shadow, verify, ...parts },
      warnings: () => [
        ...(settings.warnings ?? []),
        ...(hostRules?.problems() ?? []),
        ...directReturn.problems(),
        ...nodeSockets.problems(),
        ...(history?.problems() ?? []),
      ],
    }),
  );
  start(source.source, early, {
    ...{ agent, servers, nodeName: settings.plan.nodeName, log },
    followers: [directReturn, ...(shadow ? [shadow] : []), ...(history ? [history] : [])],
  });
  closers.push(whenServing({ agent, servers, onServing }));
  return {
    admin,
    installation: dataplane.installation,
    dataplane,
    configWritten: servers.configWritten,
    freeze,
  };
}

/** Who listens at addresses of the node; where the agent itself does, the kernel tells it of others when it binds. */
const listenersBeside = ({
  capabilities,
}: Pick<ComposedDataplane, 'capabilities'>): typeof listenersOf =>
  capabilities.relays === undefined ? listenersOf : () => [];

interface Startable extends SourceProgress {
  readonly source: Source;
  /** Unless it is started already. */
  start(): void;
}

function startable(
  source: Source,
  early: EarlyListener,
  closers: ComposeParts['closers'],
): Startable {
  let isStarted = false;
  const startOnce = (): void => {
    if (isStarted) return;
    isStarted = true;
    closers.push(source);
    source.start(early.listener);
  };
  return {
    source,
    start: startOnce,
    lists: () => {
      startOnce();
      return early.synced;
    },
  };
}

function noteInstance({ runDir, bpfRoot, flags }: InstanceSettings, log: Logger): void {
  if (bpfRoot === undefined) return;
  try {
    writeInstance(runDir, bpfRoot, flags);
  } catch (error) {
    log.warn(
      { reason: reasonOf(error) },
      'cannot note --bpf-root in --run-dir: commands need both',
    );
  }
}

/** The source is read while the kernel checks the programs, but not before what refuses a start at once. */
async function openBeside(
  opening: Promise<ComposedDataplane>,
  source: Startable,
  closers: ComposeParts['closers'],
): Promise<ComposedDataplane> {
  await Promise.race([opening, nextTurn()]);
  source.start();
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
    followers,
    nodeName,
    log,
  }: {
    readonly agent: Agent;
    /** They see what arrives before the agent accepts it. */
    readonly followers: readonly Pick<HistoryFollower, 'arrived'>[];
    readonly servers: Servers;
    readonly nodeName: string;
    readonly log: Logger;
  },
): void {
  const noteProblems = createProblemLog(log);
  // A plan may come between the problems of two kinds: the source reports all together, once it has met them.
  let reported: readonly Problem[] = [];
  const logProblems = (): void =>
    noteProblems(problemsOf(reported, source, agent.state().plan?.rejections ?? []));
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
      for (const follower of followers) follower.arrived(changes);
      agent.accept(changes);
    },
    onSynced: () => agent.sourceSynced(),
    onNodes: () => agent.nodesListed(),
    onRequest: servers.requested,
    onProblems: (problems: readonly Problem[]) => {
      reported = problems;
      logProblems();
    },
  };
  void early.passTo(withNodeWarning(listener, nodeName, log));
}

/** Asked before anything is written, and answered before the first sync is. */
function adoptFlows(dataplane: ComposedDataplane, cleaner: ConntrackCleaner, log: Logger): void {
  (dataplane.heldDatagrams?.() ?? dataplane.held()).then(
    (held) => cleaner.adopt([...held].map(({ id }) => id)),
    (error: unknown) => log.warn({ reason: reasonOf(error) }, 'cannot read what is programmed'),
  );
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

function logAttached({ installation }: ComposedDataplane, node: string, log: Logger): void {
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
