// SPDX-License-Identifier: Apache-2.0
// Which tracked UDP flows a change has made stale: nothing tells a UDP client that its backend is gone, so a
// flow that still points there must be forgotten. TCP and SCTP are not touched, nor is any flow to a backend that
// is ready or serves while it terminates, on whatever node and whatever the policies say.
// Source: CleanStaleEntries in kube-proxy's pkg/proxy/conntrack, with what was fixed there later or is fixed here:
// ports without any serving endpoint count too (kubernetes issue 139628), deleted Services and frontends count, new
// frontends count (a flow may be older than its Service), and a NodePort means this node's addresses only, not
// whatever else has that port number. Pure.
import { isSame } from '../../lib/json.ts';
import type { Protocol } from '../../model/types.ts';
import type {
  BackendList,
  Frontend,
  Plan,
  PlanDelta,
  ServicePlan,
  ServicePortPlan,
} from '../types.ts';

/** A tracked flow as its first packet and the answers to it: `destination` is what the client dialled. */
export interface Flow {
  readonly protocol: Protocol;
  readonly destination: string;
  readonly destinationPort: number;
  /** Where replies come from: the backend, or the destination itself if nothing was translated. */
  readonly replySource: string;
  readonly replySourcePort: number;
}

interface Target {
  /** `address:port` of backends whose flows stay (`isGone`: whose flows must go). */
  readonly backends: ReadonlySet<string>;
  /** The frontend is no more: only what it had sent to its backends is ours to cut. */
  readonly isGone: boolean;
}

/** Frontends whose flows must be looked at: `10.96.0.10:53` or, for NodePorts, `IPv4 *:30053`. */
export type StaleScope = ReadonlyMap<string, Target>;

const hostPort = (address: string, port: number): string => `${address}|${port}`;

const frontendKey = ({ address, port }: Frontend, { family }: ServicePortPlan): string =>
  address === undefined ? `${family}|${port}` : hostPort(address, port);

const backendKeys = (backends: BackendList): ReadonlySet<string> =>
  new Set(backends.map(({ address, port }) => hostPort(address, port)));

/** Every UDP frontend of the plan: for the first look after a start. */
export function staleScopeOfAll(plan: Plan): StaleScope {
  const scope = new Map<string, Target>();
  for (const service of plan.services.values()) addCurrent(scope, undefined, service);
  return scope;
}

/** What one build changed. Empty if no UDP port changed its serving endpoints or its frontends. */
export function staleScope(delta: PlanDelta): StaleScope {
  const scope = new Map<string, Target>();
  for (const key of delta.changed) {
    const before = delta.previous.get(key);
    if (before !== undefined) addGone(scope, before);
  }
  // Second, so that a frontend that another Service took over is judged by its new owner.
  for (const key of delta.changed) {
    const after = delta.plan.services.get(key);
    if (after !== undefined) addCurrent(scope, delta.previous.get(key), after);
  }
  return scope;
}

const udpPorts = (service: ServicePlan | undefined): readonly ServicePortPlan[] =>
  service === undefined ? [] : service.ports.filter(({ protocol }) => protocol === 'UDP');

function addGone(scope: Map<string, Target>, before: ServicePlan): void {
  for (const port of udpPorts(before)) {
    const target = { backends: backendKeys(port.serving), isGone: true };
    for (const frontend of port.frontends) scope.set(frontendKey(frontend, port), target);
  }
}

/** Frontends whose endpoints are the same as before leave the scope: a policy change alone cuts nothing. */
function addCurrent(
  scope: Map<string, Target>,
  before: ServicePlan | undefined,
  after: ServicePlan,
): void {
  const old = new Map<string, ServicePortPlan>();
  for (const port of udpPorts(before)) {
    for (const frontend of port.frontends) old.set(frontendKey(frontend, port), port);
  }
  for (const port of udpPorts(after)) {
    const target = { backends: backendKeys(port.serving), isGone: false };
    for (const frontend of port.frontends) {
      const key = frontendKey(frontend, port);
      const was = old.get(key);
      const isUnchanged = was !== undefined && isSame(backendKeysOf(was), backendKeysOf(port));
      if (isUnchanged) scope.delete(key);
      else scope.set(key, target);
    }
  }
}

const backendKeysOf = (port: ServicePortPlan): readonly string[] =>
  port.serving.map(({ address, port: number }) => hostPort(address, number));

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
    const target = flow.protocol === 'UDP' ? targetOf(scope, flow, localAddresses) : undefined;
    if (target !== undefined && isVictim(target, flow)) victims.push(flow);
  }
  return victims;
}

function targetOf(
  scope: StaleScope,
  { destination, destinationPort }: Flow,
  localAddresses: ReadonlySet<string>,
): Target | undefined {
  const exact = scope.get(hostPort(destination, destinationPort));
  if (exact !== undefined || !localAddresses.has(destination)) return exact;
  return scope.get(`${destination.includes(':') ? 'IPv6' : 'IPv4'}|${destinationPort}`);
}

function isVictim(target: Target, { replySource, replySourcePort }: Flow): boolean {
  return target.backends.has(hostPort(replySource, replySourcePort)) === target.isGone;
}
