// SPDX-License-Identifier: Apache-2.0
// Which frontend a destination is: an exact address first, then a NodePort of this node, then nothing the
// proxy serves. Linear in frontends: for people and tests, not for traffic.
import { familyOf, isLoopback, prefixContains } from '../../lib/ip.ts';
import { ANNOTATIONS } from '../../model/annotations.ts';
import { frontendKey, nodePortKey } from '../decide/frontends.ts';
import { frontendsOnNode } from '../node-sockets/frontends.ts';
import type { Frontend, Plan, ServicePlan, ServicePortPlan } from '../types.ts';
import type { Packet } from './packet.ts';

export interface FrontendMatch {
  readonly kind: 'frontend';
  readonly port: ServicePortPlan;
  readonly frontend: Frontend;
}

export type Match =
  | FrontendMatch
  /** A ClusterIP, but none of its ports. */
  | { readonly kind: 'unknown-port'; readonly service: ServicePlan; readonly ports: string }
  | { readonly kind: 'nothing'; readonly reason: string };

export function matchDestination(plan: Plan, packet: Packet): Match {
  const process = matchNodeProcess(plan, packet);
  return (
    process ??
    find(plan, packet, ({ address }, port) => address === packet.destination && port) ??
    matchNodePort(plan, packet) ??
    matchClusterIp(plan, packet) ?? { kind: 'nothing', reason: unmatchedReason(plan, packet) }
  );
}

/** First frontend with the packet's port, protocol and family that `accepts`. */
function find(
  plan: Plan,
  packet: Packet,
  accepts: (frontend: Frontend, isPort: boolean) => boolean,
): FrontendMatch | undefined {
  const family = familyOf(packet.destination);
  for (const { ports } of plan.services.values()) {
    for (const port of ports) {
      if (port.family !== family || port.protocol !== packet.protocol) continue;
      const frontend = port.frontends.find((one) =>
        accepts(one, one.port === packet.destinationPort),
      );
      if (frontend !== undefined) return { kind: 'frontend', port, frontend };
    }
  }
  return undefined;
}

/** Before everything else: what it gets is no frontend, not even a NodePort. */
function matchNodeProcess(
  plan: Plan,
  { destination, destinationPort, protocol }: Packet,
): Match | undefined {
  const key = frontendKey(destination, destinationPort, protocol);
  for (const { isListenedTo, service, key: own } of frontendsOnNode(plan)) {
    if (!isListenedTo || own !== key) continue;
    const reason = `${key} is an address of this node, where a process of the node listens: it gets what is for Service ${service}`;
    return { kind: 'nothing', reason };
  }
  return undefined;
}

function matchNodePort(plan: Plan, packet: Packet): FrontendMatch | undefined {
  return validateNodePortAddress(plan, packet.destination) === undefined
    ? find(plan, packet, ({ kind }, isPort) => kind === 'NodePort' && isPort)
    : undefined;
}

/** The reason why NodePorts do not answer on the address; undefined if they do. */
function validateNodePortAddress(plan: Plan, address: string): string | undefined {
  const isLocal = isLoopback(address) || plan.node.localAddresses.includes(address);
  if (!isLocal) return `${address} is no address of this node`;
  if (address === '::1') return 'NodePorts never answer on the loopback of IPv6';
  const accepted = plan.nodePortAddresses[familyOf(address)];
  if (accepted === 'all' || accepted.some((prefix) => prefixContains(prefix, address))) {
    return undefined;
  }
  return `NodePorts answer on ${accepted.join(', ') || 'no address'} only, not on ${address}`;
}

/** No port of a ClusterIP leads anywhere but into its Service, so an unknown one is refused (KEP-3866), unless this node has the address. */
function matchClusterIp(plan: Plan, { destination }: Packet): Match | undefined {
  for (const service of plan.services.values()) {
    if (!service.ports.some((port) => port.refusesOtherPortsOf === destination)) continue;
    const known = service.ports.flatMap(({ protocol, frontends }) =>
      frontends
        .filter(({ kind, address }) => kind === 'ClusterIP' && address === destination)
        .map(({ port }) => `${port}/${protocol}`),
    );
    const isRefused = service.ports.some((port) => port.refusesOtherPortsOf === destination);
    if (known.length > 0 || isRefused)
      return { kind: 'unknown-port', service, ports: known.join(', ') };
  }
  return undefined;
}

function unmatchedReason(plan: Plan, packet: Packet): string {
  const { destination, destinationPort, protocol } = packet;
  const withheld = withheldReason(plan, packet);
  if (withheld !== undefined) return withheld;
  for (const [key, { unserved = [] }] of plan.services) {
    const found = unserved.find(({ address }) => address === destination);
    if (found !== undefined) return `Service ${key}: ${found.field}: ${found.reason}`;
  }
  const range = plan.serviceCidrs.find((cidr) => prefixContains(cidr, destination));
  if (range !== undefined)
    return `${destination} is in ServiceCIDR ${range}, but no Service has it`;
  const isNodePort = find(plan, packet, ({ kind }, isPort) => kind === 'NodePort' && isPort);
  const why = isNodePort === undefined ? undefined : validateNodePortAddress(plan, destination);
  const key = frontendKey(destination, destinationPort, protocol);
  return why === undefined
    ? `no Service has ${key}`
    : `${destinationPort} is a NodePort, but ${why}`;
}

/** The Service asks for the frontend, and its annotations leave it out. */
function withheldReason(plan: Plan, packet: Packet): string | undefined {
  const { destination, destinationPort, protocol } = packet;
  const isNodePort = validateNodePortAddress(plan, destination) === undefined;
  const keys = [
    frontendKey(destination, destinationPort, protocol),
    ...(isNodePort ? [nodePortKey(destinationPort, protocol, familyOf(destination))] : []),
  ];
  for (const { namespace, name, exposure } of plan.services.values()) {
    const key = keys.find((one) => exposure?.withheld.includes(one));
    if (key === undefined || exposure === undefined) continue;
    return `${key} of ${namespace}/${name} is not exposed: ${exposureReason(exposure, plan.node.labels)}`;
  }
  return undefined;
}

/** Why some frontends of a Service are not there. */
export function exposureReason(
  { kinds, nodes, isHere }: NonNullable<ServicePlan['exposure']>,
  labels: string | undefined,
): string {
  const what = kinds?.join(', ') || 'no kind of address';
  const own = labels === undefined ? "this node's Node is not known" : `this node has ${labels}`;
  const where = nodes === '' ? 'no node, as its selector cannot be read' : `nodes with ${nodes}`;
  return [
    ...(kinds === undefined ? [] : [`${ANNOTATIONS.kinds.name} names ${what}`]),
    ...(isHere ? [] : [`${ANNOTATIONS.nodes.name} means ${where}, and ${own}`]),
  ].join('; ');
}
