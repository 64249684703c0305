// SPDX-License-Identifier: Apache-2.0
// The capabilities of each dataplane, and the router: a connection is served by the first dataplane whose
// capabilities cover it. Every view that shows "served by" or "not served by" uses it.
//   servedBy([BPF], port, frontend, 'outside') -> { dataplane: undefined, limitations: [packets from outside] }
//   unservedTexts([BPF], port, frontend)      -> ['not served by bpf: packets from outside']

import {
  type Algorithm,
  FAMILIES,
  type Family,
  type Forwarding,
  type Protocol,
} from '../model/types.ts';
import { ALGORITHM_NAMES, BALANCING, lookupOf } from '../plan/decide/balancing.ts';
import { CLIENT_POSITIONS, mayKeepLocalClient } from '../plan/decide/traffic-rules.ts';
import type { ClientPosition, Frontend, ServicePortPlan } from '../plan/types.ts';

/** What a dataplane serves for clients of one position: sockets of pods here and of the node, or packets from outside. */
export interface PositionCapabilities {
  readonly protocols: readonly Protocol[];
  /** Tells sources that may use a frontend from those that may not. */
  readonly hasSourceRanges: boolean;
  /** Replaces the client's address where the plan requires it; otherwise backends see the client's. */
  readonly hasMasquerade: boolean;
}

export interface Capabilities {
  readonly dataplane: string;
  readonly families: readonly Family[];
  /** What it serves for clients of each position; undefined: nothing. */
  readonly serves: Readonly<Record<ClientPosition, PositionCapabilities | undefined>>;
  /** Translates SCTP to another port: its checksum, unlike those of TCP and UDP, has to be computed anew. */
  readonly changesSctpPorts: boolean;
  /** Knows the chosen backend when it masquerades: see mayKeepLocalClient. */
  readonly keepsLocalClients: boolean;
  /** Counts the connections of frontends and backends, those that it refuses or drops, and those that are open. */
  readonly countsConnections: boolean;
  /** Tells the sockets of the node from those of its pods. */
  readonly knowsNode: boolean;
  /** NodePorts never answer at loopback addresses; absent: as the settings say. */
  readonly answersLoopback?: false;
  /** A backend that is its own client is masqueraded only if it is on this node; absent: wherever it is. */
  readonly masqueradesItself?: false;
  /** The sockets of single cgroups can be left alone. */
  readonly canBypass: boolean;
  /** How many clients session affinity remembers for each endpoint; undefined: as many as a map of all Services holds. */
  readonly affinityClients: number | undefined;
  /** Balancing algorithms; of others backends are chosen at random, by weight if those weigh. */
  readonly algorithms: readonly Algorithm[];
  /** Requests from outside reach backends of other nodes as they are, and those nodes answer the client themselves. */
  readonly directReturn: boolean;
  /** Why not, where others of its kind have it. */
  readonly noDirectReturn?: string | undefined;
  /**
   * Sockets of the agent stand between client and backend: at the addresses of Services, which the loopback device has, or
   * at ports of 127.0.0.1. Absent: the kernel serves without the agent.
   */
  readonly relays?: 'addresses' | 'port-map' | undefined;
  /** Why their bytes pass through JavaScript; absent: a thread of the addon moves them. */
  readonly slowRelay?: string | undefined;
  /** Established TCP connections go through a flowtable, or why not. Absent: nobody has asked for it. */
  readonly offload?: { readonly reason?: string | undefined } | undefined;
  /** Serves nothing, and only tells what would differ. */
  readonly isShadow?: true;
}

const SOCKETS: PositionCapabilities = {
  protocols: ['TCP', 'UDP'],
  hasSourceRanges: false,
  hasMasquerade: false,
};

const PACKETS: PositionCapabilities = {
  protocols: ['TCP', 'UDP', 'SCTP'],
  hasSourceRanges: true,
  hasMasquerade: true,
};

export interface BpfFacts {
  /** Programs on devices. */
  readonly packets: boolean;
  /** The kernel tells the cookie of a network namespace: from Linux 5.14 on. */
  readonly knowsNode?: boolean;
  /** Why the kernel has no direct return; undefined: it has. */
  readonly noDirectReturn?: string | undefined;
}

/**
 * BPF: hooks on connect(), sendmsg(), recvmsg() and getpeername() of the sockets of this node, and `packets`:
 * programs on its devices. What a socket hook leaves alone a pod sends as packets, which those programs translate
 * (a connection that a socket hook has translated is never masqueraded). What the node itself sends only the
 * socket hooks see. They know that a socket of the node will have an address of the node; of a socket of a pod they
 * know the address only if it is bound to one, so that source ranges need both.
 */
export const bpfCapabilities = ({
  packets,
  knowsNode = true,
  noDirectReturn,
}: BpfFacts): Capabilities => ({
  dataplane: 'bpf',
  families: FAMILIES,
  serves: {
    pod: packets ? { ...PACKETS, hasMasquerade: false } : SOCKETS,
    host: { ...SOCKETS, hasSourceRanges: packets },
    outside: packets ? PACKETS : undefined,
  },
  changesSctpPorts: false,
  keepsLocalClients: true,
  countsConnections: true,
  knowsNode,
  canBypass: true,
  affinityClients: undefined,
  algorithms: ALGORITHM_NAMES,
  directReturn: packets && noDirectReturn === undefined,
  noDirectReturn: packets ? noDirectReturn : undefined,
});

/** With --devices none: the socket hooks alone. */
export const BPF: Capabilities = bpfCapabilities({ packets: false });

/** ip_list_tot of the kernel module xt_recent, unless it was loaded with another one. */
export const RECENT_CLIENTS = 100;

/**
 * IPTABLES: rules see every packet of the node, and masquerade before they know which backend is chosen. They count
 * packets, from 0 whenever their chain is written: connections are known to conntrack alone.
 */
export const iptablesCapabilities = (
  families: readonly Family[],
  affinityClients = RECENT_CLIENTS,
): Capabilities => ({
  dataplane: 'iptables',
  families,
  serves: { pod: PACKETS, host: PACKETS, outside: PACKETS },
  changesSctpPorts: true,
  keepsLocalClients: false,
  countsConnections: false,
  knowsNode: true,
  canBypass: false,
  affinityClients,
  algorithms: ['random', 'weighted-random'],
  directReturn: false,
});

/** On a node with both families. */
export const IPTABLES: Capabilities = iptablesCapabilities(FAMILIES);

const RELAYED: PositionCapabilities = { ...PACKETS, protocols: ['TCP', 'UDP'] };

/** USERSPACE: sockets of the agent, which need no privilege. Backends see an address of the node, whoever asks. */
export const userspaceCapabilities = (
  relays: Capabilities['relays'],
  slowRelay?: string,
): Capabilities => ({
  ...{ dataplane: 'userspace', families: FAMILIES },
  serves: { pod: RELAYED, host: RELAYED, outside: RELAYED },
  changesSctpPorts: false,
  keepsLocalClients: false,
  ...{ countsConnections: true, knowsNode: true, canBypass: false, affinityClients: undefined },
  algorithms: ALGORITHM_NAMES.filter((name) => lookupOf(name) === undefined),
  directReturn: false,
  ...{ relays, slowRelay },
});

/** What a dynamic set of one endpoint holds. */
export const AFFINITY_SET_CLIENTS = 65_535;

/** NFTABLES: the same rules, in maps of which the size costs packets nothing. */
export const nftablesCapabilities = (families: readonly Family[]): Capabilities => ({
  ...iptablesCapabilities(families, AFFINITY_SET_CLIENTS),
  dataplane: 'nftables',
  answersLoopback: false,
  masqueradesItself: false,
});

export const NFTABLES: Capabilities = nftablesCapabilities(FAMILIES);

/** SHADOW: another proxy serves, and nothing is changed. */
export const SHADOW: Capabilities = {
  ...{ dataplane: 'shadow', families: FAMILIES, isShadow: true },
  serves: { pod: undefined, host: undefined, outside: undefined },
  ...{ changesSctpPorts: false, keepsLocalClients: false, countsConnections: false },
  ...{ knowsNode: true, canBypass: false, affinityClients: undefined, algorithms: [] },
  directReturn: false,
};

export type LimitCode =
  | 'SHADOW'
  | 'FAMILY'
  | 'ORIGIN'
  | 'PROTOCOL'
  | 'SCTP_PORT'
  | 'SOURCE_RANGES'
  | 'MASQUERADE';

/** What a dataplane cannot do: for one frontend, or (limitations.ts) for all that it serves. */
export interface Limitation<Code = LimitCode> {
  readonly dataplane: string;
  readonly code: Code;
  /** Of one that keeps a frontend from being served: follows "not served by bpf: ", e.g. `SCTP`. */
  readonly reason: string;
}

export interface Served {
  /** undefined: no dataplane serves it; the packets follow the node's routes. */
  readonly dataplane: string | undefined;
  /** The missing capabilities of the dataplanes before it. */
  readonly limitations: readonly Limitation[];
  /** Served, but with differences from the plan. */
  readonly differences: readonly Limitation[];
}

export type PortTraits = Pick<ServicePortPlan, 'family' | 'protocol' | 'cluster' | 'local'>;
export type FrontendTraits = Pick<Frontend, 'kind' | 'port' | 'rules' | 'isFiltered'>;

/** How its intended clients reach it: a ClusterIP from the cluster's nodes, other frontends from anywhere. */
const positionsOf = ({ kind }: Pick<Frontend, 'kind'>): readonly ClientPosition[] =>
  kind === 'ClusterIP' ? ['pod', 'host'] : CLIENT_POSITIONS;

/** True if this dataplane can serve it: the same as having no limitations, but cheaper. */
export function isAble(
  { families, serves, changesSctpPorts }: Capabilities,
  port: PortTraits,
  frontend: Pick<Frontend, 'port' | 'isFiltered'>,
  position: ClientPosition,
): boolean {
  const served = serves[position];
  return (
    served !== undefined &&
    families.includes(port.family) &&
    served.protocols.includes(port.protocol) &&
    (served.hasSourceRanges || frontend.isFiltered !== true) &&
    (changesSctpPorts || !changesSctpPort(port, frontend))
  );
}

/** Whether SCTP packets to it would have to get another port. */
const changesSctpPort = (
  { protocol, cluster, local }: PortTraits,
  frontend: Pick<Frontend, 'port'>,
): boolean =>
  protocol === 'SCTP' && [...cluster, ...local].some(({ port }) => port !== frontend.port);

/** True if it can refuse the ports of a ClusterIP that its Service does not have, of any protocol. */
export const canRefuse = (
  { families, serves }: Capabilities,
  { family }: Pick<PortTraits, 'family'>,
  position: ClientPosition,
): boolean => families.includes(family) && serves[position] !== undefined;

/**
 * The dataplane that refuses connections to a ClusterIP's port that none serves, as it does those to a port that the
 * Service does not have; undefined: they follow the node's routes.
 */
export const refusedBy = (
  dataplanes: readonly Capabilities[],
  port: Pick<PortTraits, 'family' | 'protocol'>,
  { kind }: Pick<Frontend, 'kind'>,
  position: ClientPosition,
): string | undefined =>
  kind === 'ClusterIP'
    ? dataplanes.find(
        (one) =>
          canRefuse(one, port, position) && one.serves[position]?.protocols.includes(port.protocol),
      )?.dataplane
    : undefined;

/** The dataplane that serves a new connection from `position` to the frontend. */
export function servedBy(
  dataplanes: readonly Capabilities[],
  port: PortTraits,
  frontend: FrontendTraits,
  position: ClientPosition,
): Served {
  const limitations: Limitation[] = [];
  for (const capabilities of dataplanes) {
    const found = limitationsFor(capabilities, port, frontend, position);
    if (found.length === 0) {
      const differences = differencesOf(capabilities, frontend, position);
      return { dataplane: capabilities.dataplane, limitations, differences };
    }
    limitations.push(...found);
  }
  return { dataplane: undefined, limitations, differences: [] };
}

/** True if a backend of this node sees the client's own address even where the plan masquerades. */
export const keepsLocalClient = (
  { keepsLocalClients }: Capabilities,
  frontend: Pick<Frontend, 'kind'>,
): boolean => keepsLocalClients && mayKeepLocalClient(frontend);

/** How it chooses a backend where the plan asks for this algorithm. */
export function usedAlgorithm(
  { algorithms }: Pick<Capabilities, 'algorithms'>,
  asked: Algorithm,
): Algorithm {
  if (algorithms.includes(asked)) return asked;
  return BALANCING[asked].isWeighing ? 'weighted-random' : 'random';
}

/** How it forwards to other nodes where the plan asks for direct return. */
export const usedForwarding = ({ directReturn }: Pick<Capabilities, 'directReturn'>): Forwarding =>
  directReturn ? 'dsr' : 'snat';

/** One text per reason why some intended clients of the frontend are not served; empty if all are. */
export function unservedTexts(
  dataplanes: readonly Capabilities[],
  port: PortTraits,
  frontend: FrontendTraits,
): readonly string[] {
  const unserved = positionsOf(frontend)
    .map((position) => servedBy(dataplanes, port, frontend, position))
    .filter(({ dataplane }) => dataplane === undefined);
  return [...new Set(unserved.flatMap(({ limitations }) => limitations.map(limitationText)))];
}

/** The dataplanes that are to hold the frontend. */
export const servingDataplanes = (
  dataplanes: readonly Capabilities[],
  port: PortTraits,
  frontend: FrontendTraits,
  positions: readonly ClientPosition[] = positionsOf(frontend),
): ReadonlySet<string> =>
  new Set(
    positions.flatMap((position) => servedBy(dataplanes, port, frontend, position).dataplane ?? []),
  );

/** Who serves the frontend, of those that have programmed it: `bpf`, or if several have, each with its clients. */
export function servedByTexts(
  dataplanes: readonly Capabilities[],
  port: PortTraits,
  frontend: FrontendTraits,
  programmedBy: readonly string[],
): readonly string[] {
  if (programmedBy.length <= 1) return programmedBy;
  return programmedBy.map((name) => {
    const positions = positionsOf(frontend).filter(
      (position) => servedBy(dataplanes, port, frontend, position).dataplane === name,
    );
    return positions.length === 0 ? name : `${name}: ${clientsText(positions)}`;
  });
}

/** `not served by bpf: SCTP`. */
export const limitationText = ({ dataplane, reason }: Limitation): string =>
  `not served by ${dataplane}: ${reason}`;

function clientsText(positions: readonly ClientPosition[]): string {
  const isNode = positions.includes('pod') && positions.includes('host');
  const others = isNode ? positions.filter((position) => position === 'outside') : positions;
  const texts = others.map((position) => CLIENT_TEXT[position]);
  return [...(isNode ? ['sockets of this node'] : []), ...texts].join(', ');
}

const CLIENT_TEXT: Readonly<Record<ClientPosition, string>> = {
  pod: 'pods of this node',
  host: 'processes of this node',
  outside: 'packets from outside',
};

function limitationsFor(
  capabilities: Capabilities,
  port: PortTraits,
  frontend: FrontendTraits,
  position: ClientPosition,
): readonly Limitation[] {
  const { dataplane, families, serves, changesSctpPorts, isShadow } = capabilities;
  const limit = (code: LimitCode, reason: string): Limitation => ({ dataplane, code, reason });
  if (isShadow === true) return [limit('SHADOW', 'it only compares')];
  const served = serves[position];
  if (!families.includes(port.family)) return [limit('FAMILY', port.family)];
  if (served === undefined) return [limit('ORIGIN', CLIENT_TEXT[position])];
  /** Says for whom, if the dataplane can do it for others. */
  const lacking = (what: string, can: (other: PositionCapabilities) => boolean): string =>
    Object.values(serves).some((other) => other !== undefined && can(other))
      ? `${what} from ${CLIENT_TEXT[position]}`
      : what;
  const hasProtocol = ({ protocols }: PositionCapabilities): boolean =>
    protocols.includes(port.protocol);
  const hasRanges = ({ hasSourceRanges }: PositionCapabilities): boolean => hasSourceRanges;
  const found: Limitation[] = [];
  if (!hasProtocol(served)) found.push(limit('PROTOCOL', lacking(port.protocol, hasProtocol)));
  else if (!changesSctpPorts && changesSctpPort(port, frontend))
    found.push(limit('SCTP_PORT', 'SCTP to backends with another port'));
  if (!hasRanges(served) && frontend.isFiltered === true)
    found.push(limit('SOURCE_RANGES', lacking('source ranges', hasRanges)));
  return found;
}

/** Only pods have an address to masquerade: a process of the host has an address of the node anyway. */
function differencesOf(
  { dataplane, serves }: Capabilities,
  { rules }: FrontendTraits,
  position: ClientPosition,
): readonly Limitation[] {
  const isAsked = position === 'outside' ? rules.outside.masquerade : rules.pod.masquerade;
  if (serves[position]?.hasMasquerade === true || !isAsked) return [];
  return [{ dataplane, code: 'MASQUERADE', reason: 'masquerade: backends see the client address' }];
}
