// SPDX-License-Identifier: Apache-2.0
// The status of a running agent, as `fairlead status` shows it.
import { release } from 'node:os';
import type { AgentState } from '../agent/agent.ts';
import type { Limitation } from '../engines/capabilities.ts';
import type { ComposedDataplane } from '../engines/dataplane.ts';
import { limitationsOf } from '../engines/limitations.ts';
import type {
  CookieView,
  DeviceView,
  Hook,
  Installation,
  ScopeView,
  StaleSocketsState,
  TableFill,
} from '../engines/snapshot.ts';
import type { Problem } from '../model/problem.ts';
import type { Rejection } from '../model/types.ts';
import type { Finding } from '../on-node/finding.ts';
import { type PeerCounts, peerCounts } from '../plan/direct-return/peers.ts';
import { frontendsOnNode } from '../plan/node-sockets/frontends.ts';
import type { Plan } from '../plan/types.ts';
import type { ClusterStatus } from '../source/apiserver/cluster.ts';
import type { Source } from '../source/source.ts';
import type { ShadowView } from './shadow-view.ts';

export interface Status {
  readonly apiVersion: 'fairlead.io/v1';
  readonly kind: 'Status';
  readonly version: string;
  readonly pid: number;
  readonly node: string;
  readonly kernel: string;
  readonly startedAt: string;
  readonly isReady: boolean;
  readonly readyAt: string | undefined;
  /** In the order in which they are asked to serve a frontend. */
  readonly dataplanes: readonly string[];
  /** What those of them that are in use cannot do for anything that they serve. */
  readonly limitations: readonly Limitation<string>[];
  readonly cgroupRoot?: string | undefined;
  readonly bpfRoot?: string | undefined;
  readonly iptables?: Installation['iptables'];
  readonly nftables?: Installation['nftables'];
  readonly hooks: readonly Hook[];
  readonly refusesWith: 'ECONNREFUSED' | 'EPERM';
  /** Layers that the kernel refused: what they would serve is not served. */
  readonly refused: Installation['refused'];
  /** What iptables serves because eBPF cannot. */
  readonly fallback?: Installation['fallback'];
  /** The network devices of the node; none if no programs are attached to devices. */
  readonly devices: readonly DeviceView[];
  readonly source: {
    readonly kind: string;
    readonly location: string;
    readonly cluster?: ClusterStatus;
  };
  readonly sync: {
    readonly count: number;
    readonly lastAt: string | undefined;
    readonly lastDurationMs: number | undefined;
    readonly failed: AgentState['failed'];
    readonly driftTotal: number;
    readonly lastAuditAt: string | undefined;
  };
  readonly services: number;
  readonly tables: readonly TableFill[];
  readonly reasons: Readonly<Record<string, number>>;
  readonly staleSockets?: StaleSocketsState;
  /** Whose connections are translated at the socket. */
  readonly scope?: ScopeView;
  /** What packet programs are loaded with, as `IPv4`, `IPv6`, `direct return`; undefined: none are loaded. */
  readonly packetFeatures?: readonly string[];
  /** Frontends that processes of this node get, because they listen there; absent = none. */
  readonly nodeProcesses?: readonly { readonly service: string; readonly frontend: string }[];
  /** Other nodes, if some Service asks for direct return, and how nodes know each other's requests. */
  readonly directReturn?: PeerCounts & { readonly cookies?: CookieView };
  /** What an agent with --shadow has found. */
  readonly shadow?: ShadowView;
  /** What else is on the node, by topic. */
  readonly onThisNode?: readonly Finding[];
  /** Problems of the source, and rejected objects and fields with file and line. */
  readonly problems: readonly Problem[];
}

export interface StatusParts {
  readonly version: string;
  readonly node: string;
  readonly startedAt: Date;
  readonly dataplane: ComposedDataplane;
  readonly source: Source;
  readonly state: AgentState;
  readonly findings?: readonly Finding[];
  readonly shadow?: ShadowView;
  /** Kernel settings, or annotations, that could not be written. */
  readonly warnings?: readonly Problem[];
}

export function statusOf(parts: StatusParts): Status {
  const { state, source } = parts;
  const { installation, dataplanes } = parts.dataplane;
  const { tables, outcomes, staleSockets, scope, cookies, packetFeatures } =
    parts.dataplane.counters();
  const cluster = source.cluster?.();
  const directReturn = peerCounts(state.plan);
  const nodeProcesses = nodeProcessesOf(state.plan);
  return {
    apiVersion: 'fairlead.io/v1',
    kind: 'Status',
    version: parts.version,
    pid: process.pid,
    node: parts.node,
    kernel: release(),
    startedAt: parts.startedAt.toISOString(),
    isReady: state.isReady,
    readyAt: state.readyAt?.toISOString(),
    dataplanes: dataplanes.map(({ dataplane }) => dataplane),
    limitations: dataplanes.flatMap(limitationsOf),
    ...installation,
    devices: parts.dataplane.devices(),
    source: {
      kind: source.kind,
      location: source.location,
      ...(cluster && { cluster }),
    },
    sync: {
      count: state.syncs,
      lastAt: state.lastSync?.at.toISOString(),
      lastDurationMs: state.lastSync?.report.elapsedMs,
      failed: state.failed,
      driftTotal: state.driftTotal,
      lastAuditAt: state.lastAuditAt?.toISOString(),
    },
    services: state.plan?.services.size ?? 0,
    tables,
    reasons: outcomes,
    ...(staleSockets && { staleSockets }),
    ...(scope && { scope }),
    ...(packetFeatures && { packetFeatures }),
    ...(directReturn && { directReturn: { ...directReturn, ...(cookies && { cookies }) } }),
    ...(nodeProcesses.length > 0 && { nodeProcesses }),
    ...(parts.shadow && { shadow: parts.shadow }),
    ...(parts.findings && { onThisNode: parts.findings }),
    problems: [
      ...(parts.warnings ?? []),
      ...problemsOf(source.problems(), source, state.plan?.rejections ?? []).filter(
        ({ isNote }) => isNote !== true,
      ),
    ],
  };
}

const nodeProcessesOf = (plan: Plan | undefined): NonNullable<Status['nodeProcesses']> =>
  [...(plan === undefined ? [] : frontendsOnNode(plan))]
    .filter(({ isListenedTo }) => isListenedTo)
    .map(({ service, key }) => ({ service, frontend: key }));

/** `problems` of the source, then rejected objects and fields with the place they stand in. */
export function problemsOf(
  problems: readonly Problem[],
  source: Pick<Source, 'locate'>,
  rejections: readonly Rejection[],
): readonly Problem[] {
  const rejected = rejections.map((rejection) => {
    const at = source.locate(rejection.object, rejection.field);
    return { ...rejection, file: at?.file, line: at?.line };
  });
  return [...problems, ...rejected];
}
