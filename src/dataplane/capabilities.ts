// SPDX-License-Identifier: Apache-2.0
// The capabilities of each dataplane, and the router: a connection is served by the first dataplane whose
// capabilities cover it. Every view that shows "served by" or "not served by" uses it.
//   servedBy([BPF], port, frontend, 'packet') -> { dataplane: undefined, limits: [packets from outside] }
//   unservedTexts([BPF], port, frontend)      -> ['not served by bpf: packets from outside']
import type { Family, Protocol } from '../model/types.ts';
import { mayKeepLocalClient } from '../plan/decide/traffic-rules.ts';
import type { ClientKind } from '../plan/explain/client.ts';
import type { Frontend, ServicePortPlan } from '../plan/types.ts';

/** Where a connection meets a dataplane: at a socket of this node (its pods and processes), or as packets. */
export type Origin = 'socket' | 'packet';

export interface Capabilities {
  readonly dataplane: string;
  readonly families: readonly Family[];
  readonly protocols: readonly Protocol[];
  readonly origins: readonly Origin[];
  /** Honours loadBalancerSourceRanges. */
  readonly hasSourceRanges: boolean;
  /** Replaces the client's address where the plan requires it; otherwise backends see the client's. */
  readonly hasMasquerade: boolean;
  /** Knows the chosen backend when it masquerades: see mayKeepLocalClient. */
  readonly keepsLocalClients: boolean;
}

/** The socket hooks of BPF: connect, sendmsg, recvmsg and getpeername of sockets on this node. */
export const BPF: Capabilities = {
  dataplane: 'bpf',
  families: ['IPv4', 'IPv6'],
  protocols: ['TCP', 'UDP'],
  origins: ['socket'],
  hasSourceRanges: false,
  hasMasquerade: false,
  keepsLocalClients: true,
};

export const ORIGINS: readonly Origin[] = ['socket', 'packet'];

export type LimitCode = 'FAMILY' | 'PROTOCOL' | 'SOURCE_RANGES' | 'ORIGIN' | 'MASQUERADE';

/** A required capability that this dataplane lacks. */
export interface Limit {
  readonly dataplane: string;
  readonly code: LimitCode;
  /** Follows "not served by bpf: ", e.g. `SCTP`. */
  readonly reason: string;
}

export interface Served {
  /** undefined: no dataplane serves it; the packets follow the node's routes. */
  readonly dataplane: string | undefined;
  /** The missing capabilities of the dataplanes before it. */
  readonly limits: readonly Limit[];
  /** Served, but with differences from the plan. */
  readonly differences: readonly Limit[];
}

export type PortTraits = Pick<ServicePortPlan, 'family' | 'protocol'>;
export type FrontendTraits = Pick<Frontend, 'kind' | 'rules' | 'sourceRanges'>;

/** Pods and processes of this node are clients at a socket; all others send packets. */
export const originOf = (client: ClientKind): Origin =>
  client === 'pod here' || client === 'host process' ? 'socket' : 'packet';

/** How its intended clients reach it: a ClusterIP from the cluster's nodes, other frontends from anywhere. */
export const originsOf = ({ kind }: Pick<Frontend, 'kind'>): readonly Origin[] =>
  kind === 'ClusterIP' ? ['socket'] : ['socket', 'packet'];

/** True if this dataplane can serve it: the same as having no limits, but cheaper. */
export const isAble = (
  { families, protocols, origins, hasSourceRanges }: Capabilities,
  { family, protocol }: PortTraits,
  { sourceRanges }: Pick<Frontend, 'sourceRanges'>,
  origin: Origin,
): boolean =>
  families.includes(family) &&
  protocols.includes(protocol) &&
  (hasSourceRanges || sourceRanges === undefined) &&
  origins.includes(origin);

/** True if it can refuse the ports of a ClusterIP that its Service does not have, of any protocol. */
export const canRefuse = (
  { families, origins }: Capabilities,
  { family }: Pick<PortTraits, 'family'>,
  origin: Origin,
): boolean => families.includes(family) && origins.includes(origin);

/** The dataplane that serves a new connection from `origin` to the frontend. */
export function servedBy(
  dataplanes: readonly Capabilities[],
  port: PortTraits,
  frontend: FrontendTraits,
  origin: Origin,
): Served {
  const limits: Limit[] = [];
  for (const capabilities of dataplanes) {
    const found = limitsOf(capabilities, port, frontend, origin);
    if (found.length === 0) {
      const differences = differencesOf(capabilities, frontend, origin);
      return { dataplane: capabilities.dataplane, limits, differences };
    }
    limits.push(...found);
  }
  return { dataplane: undefined, limits, differences: [] };
}

/** True if a backend of this node sees the client's own address even where the plan masquerades. */
export const keepsLocalClient = (
  { keepsLocalClients }: Capabilities,
  frontend: Pick<Frontend, 'kind'>,
): boolean => keepsLocalClients && mayKeepLocalClient(frontend);

/** One text per reason why some intended clients of the frontend are not served; empty if all are. */
export function unservedTexts(
  dataplanes: readonly Capabilities[],
  port: PortTraits,
  frontend: FrontendTraits,
): readonly string[] {
  const unserved = originsOf(frontend)
    .map((origin) => servedBy(dataplanes, port, frontend, origin))
    .filter(({ dataplane }) => dataplane === undefined);
  return [...new Set(unserved.flatMap(({ limits }) => limits.map(limitText)))];
}

/** The dataplanes that are to hold the frontend. */
export const servingDataplanes = (
  dataplanes: readonly Capabilities[],
  port: PortTraits,
  frontend: FrontendTraits,
  origins: readonly Origin[] = originsOf(frontend),
): ReadonlySet<string> =>
  new Set(
    origins.flatMap((origin) => servedBy(dataplanes, port, frontend, origin).dataplane ?? []),
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
    const origins = originsOf(frontend).filter(
      (origin) => servedBy(dataplanes, port, frontend, origin).dataplane === name,
    );
    const clients = origins.map((origin) => ORIGIN_TEXT[origin]).join(', ');
    return clients === '' ? name : `${name}: ${clients}`;
  });
}

/** `not served by bpf: SCTP`. */
export const limitText = ({ dataplane, reason }: Limit): string =>
  `not served by ${dataplane}: ${reason}`;

function limitsOf(
  capabilities: Capabilities,
  { family, protocol }: PortTraits,
  { sourceRanges }: FrontendTraits,
  origin: Origin,
): readonly Limit[] {
  const { dataplane, families, protocols, origins, hasSourceRanges } = capabilities;
  const rows: readonly (readonly [isServed: boolean, code: LimitCode, reason: string])[] = [
    [families.includes(family), 'FAMILY', family],
    [protocols.includes(protocol), 'PROTOCOL', protocol],
    [hasSourceRanges || sourceRanges === undefined, 'SOURCE_RANGES', 'source ranges'],
    [origins.includes(origin), 'ORIGIN', ORIGIN_TEXT[origin]],
  ];
  return rows
    .filter(([isServed]) => !isServed)
    .map(([, code, reason]) => ({ dataplane, code, reason }));
}

const ORIGIN_TEXT: Readonly<Record<Origin, string>> = {
  socket: 'sockets of this node',
  packet: 'packets from outside',
};

/** Only pods have an address to masquerade: a socket of the host has an address of the node anyway. */
function differencesOf(
  { dataplane, hasMasquerade }: Capabilities,
  { rules }: FrontendTraits,
  origin: Origin,
): readonly Limit[] {
  const isAsked = origin === 'socket' ? rules.pod.masquerade : rules.outside.masquerade;
  if (hasMasquerade || !isAsked) return [];
  return [{ dataplane, code: 'MASQUERADE', reason: 'masquerade: backends see the client address' }];
}
