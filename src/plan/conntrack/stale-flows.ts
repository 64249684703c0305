// SPDX-License-Identifier: Apache-2.0
// Which tracked UDP and SCTP flows a change has made stale: nothing tells such a client that its backend is gone, or
// only after minutes, so a flow that still points there must be forgotten. TCP is not touched, nor is any flow to a
// backend that is ready or serves while it terminates, on whatever node and whatever the policies say.
// Source: CleanStaleEntries in kube-proxy's pkg/proxy/conntrack, with what was fixed there later or is fixed here:
// SCTP counts, as it did up to Kubernetes 1.31, ports without any serving endpoint count too (kubernetes issue 139628),
// deleted Services and frontends count, new frontends count (a flow may be older than its Service), and a NodePort
// means this node's addresses only, not whatever else has that port number. Pure.
import { isSame } from '../../lib/json.ts';
import type { Family, Protocol } from '../../model/types.ts';
import type { BackendList, Frontend, Plan, ServicePlan, ServicePortPlan } from '../types.ts';

/** A tracked flow as its first packet and the answers to it: `destination` is what the client dialled. */
export interface Flow {
  readonly protocol: Protocol;
  readonly destination: string;
  readonly destinationPort: number;
  /** Where replies come from: the backend, or the destination itself if nothing was translated. */
  readonly replySource: string;
  readonly replySourcePort: number;
}

/** What one frontend's flows are judged by. */
interface Target {
  readonly family: Family;
  readonly protocol: Protocol;
  readonly port: number;
  readonly isStale: (flow: Flow) => boolean;
  /** The frontend is no more: of its flows others decide, too, who may have it now. */
  readonly isGone: boolean;
}

/** Frontends whose flows must be looked at, by `UDP|10.96.0.10|53` or, for NodePorts, `UDP|IPv4|30053`. */
export type StaleScope = ReadonlyMap<string, Target>;

const hostPort = (address: string, port: number): string => `${address}|${port}`;

const frontendKey = (
  { address, port }: Pick<Frontend, 'address' | 'port'>,
  { family, protocol }: Pick<ServicePortPlan, 'family' | 'protocol'>,
): string => `${protocol}|${hostPort(address ?? family, port)}`;

/** Most frontends of a scope have no flow at all: the set is made when the first one is judged. */
function lookupIn(backends: BackendList): (flow: Flow) => boolean {
  let keys: ReadonlySet<string> | undefined;
  return ({ replySource, replySourcePort }) => {
    keys ??= new Set(keysOf(backends));
    return keys.has(hostPort(replySource, replySourcePort));
  };
}

const keysOf = (backends: BackendList): readonly string[] =>
  backends.map(({ address, port }) => hostPort(address, port));

/** One Service, and what it was; undefined: it was not there, or is no more. */
export interface ServiceChange {
  readonly before: ServicePlan | undefined;
  readonly after: ServicePlan | undefined;
}

/** Empty if no UDP or SCTP port changed its serving endpoints or its frontends. After a start every Service is new. */
export function staleScope(changes: readonly ServiceChange[]): StaleScope {
  const scope = new Map<string, Target>();
  for (const { before } of changes) addGone(scope, before);
  // Second, so that a frontend that another Service took over is judged by its new owner.
  for (const { before, after } of changes) addCurrent(scope, before, after);
  return scope;
}

/** Of two changes, one after the other: what a frontend had sent to older backends is stale also when it is gone. */
export const joinedScopes = (earlier: StaleScope, later: StaleScope): StaleScope =>
  new Map([
    ...earlier,
    ...[...later].map(([key, target]) => [key, joinedTarget(earlier.get(key), target)] as const),
  ]);

const joinedTarget = (earlier: Target | undefined, later: Target): Target =>
  earlier === undefined || !later.isGone
    ? later
    : { ...later, isStale: (flow) => later.isStale(flow) || earlier.isStale(flow) };

/** A frontend that an earlier agent has programmed: `address` as in Frontend. */
export interface FormerFrontend {
  readonly family: Family;
  readonly address: string | undefined;
  readonly port: number | undefined;
  readonly protocol: Protocol | undefined;
}

/**
 * Frontends of an earlier agent that no Service of the plan has: they were deleted while no agent ran. Their backends are
 * not known, but whatever was translated there was translated by us. Without such frontends no Service is looked at:
 * each sync asks, and there may be ten thousand.
 */
export function formerScope(
  former: readonly FormerFrontend[],
  services: Plan['services'],
): StaleScope {
  const scope = new Map<string, Target>();
  if (former.length === 0) return scope;
  const current = frontendKeysOf(services);
  for (const { family, address, port, protocol } of former) {
    if (port === undefined || protocol === undefined || protocol === 'TCP') continue;
    const key = frontendKey({ address, port }, { family, protocol });
    if (!current.has(key)) {
      scope.set(key, { family, protocol, port, isStale: isTranslated, isGone: true });
    }
  }
  return scope;
}

function frontendKeysOf(services: Plan['services']): ReadonlySet<string> {
  const keys = new Set<string>();
  for (const service of services.values()) {
    for (const port of cleanedPorts(service)) {
      for (const frontend of port.frontends) keys.add(frontendKey(frontend, port));
    }
  }
  return keys;
}

const isTranslated = ({ destination, destinationPort, replySource, replySourcePort }: Flow) =>
  destination !== replySource || destinationPort !== replySourcePort;

const cleanedPorts = (service: ServicePlan | undefined): readonly ServicePortPlan[] =>
  service === undefined ? [] : service.ports.filter(({ protocol }) => protocol !== 'TCP');

const targetsOf = (
  { family, protocol, serving, frontends }: ServicePortPlan,
  isGone: boolean,
): readonly (readonly [key: string, target: Target])[] => {
  const goesToBackend = lookupIn(serving);
  // Of a frontend that is no more, only what it had sent to its backends is ours to cut.
  const isStale = isGone ? goesToBackend : (flow: Flow) => !goesToBackend(flow);
  return frontends.map((frontend) => [
    frontendKey(frontend, { family, protocol }),
    { family, protocol, port: frontend.port, isStale, isGone },
  ]);
};

function addGone(scope: Map<string, Target>, before: ServicePlan | undefined): void {
  for (const port of cleanedPorts(before)) {
    for (const [key, target] of targetsOf(port, true)) scope.set(key, target);
  }
}

/** Frontends whose endpoints are the same as before leave the scope: a policy change alone cuts nothing. */
function addCurrent(
  scope: Map<string, Target>,
  before: ServicePlan | undefined,
  after: ServicePlan | undefined,
): void {
  const old = new Map<string, ServicePortPlan>();
  for (const port of cleanedPorts(before)) {
    for (const frontend of port.frontends) old.set(frontendKey(frontend, port), port);
  }
  for (const port of cleanedPorts(after)) {
    for (const [key, target] of targetsOf(port, false)) {
      const was = old.get(key);
      const isUnchanged = was !== undefined && isSame(keysOf(was.serving), keysOf(port.serving));
      if (isUnchanged) scope.delete(key);
      else scope.set(key, target);
    }
  }
}

/** By family: whether entries of that protocol to that port can be in the scope. Families that have none are absent. */
export type ScopePorts = ReadonlyMap<Family, (protocol: Protocol, port: number) => boolean>;

export function portsOf(scope: StaleScope): ScopePorts {
  const ports = new Map<Family, Set<string>>();
  for (const { family, protocol, port } of scope.values()) {
    const known = ports.get(family) ?? new Set();
    ports.set(family, known.add(`${protocol}|${port}`));
  }
  const entries = [...ports].map(([family, known]) => {
    const has = (protocol: Protocol, port: number): boolean => known.has(`${protocol}|${port}`);
    return [family, has] as const;
  });
  return new Map(entries);
}

/**
 * The flows to forget, in their order. `localAddresses`: all addresses of this node as the kernel has them; NodePorts
 * answer on no others. Linear in flows.
 */
export function staleFlows<F extends Flow>(
  scope: StaleScope,
  flows: Iterable<F>,
  localAddresses: ReadonlySet<string>,
): readonly F[] {
  const victims: F[] = [];
  if (scope.size === 0) return victims;
  for (const flow of flows) {
    const target = targetOf(scope, flow, localAddresses);
    if (target?.isStale(flow) === true) victims.push(flow);
  }
  return victims;
}

/** A scope has frontends of UDP and SCTP alone, so a TCP flow finds none. */
function targetOf(
  scope: StaleScope,
  { protocol, destination, destinationPort }: Flow,
  localAddresses: ReadonlySet<string>,
): Target | undefined {
  const exact = scope.get(`${protocol}|${hostPort(destination, destinationPort)}`);
  if (exact !== undefined || !localAddresses.has(destination)) return exact;
  const family = destination.includes(':') ? 'IPv6' : 'IPv4';
  return scope.get(`${protocol}|${hostPort(family, destinationPort)}`);
}
