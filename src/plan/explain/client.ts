// SPDX-License-Identifier: Apache-2.0
// Who a client is, by the plan's own rules: first the local detector, then this node's addresses, else
// outside; in that order, as kube-proxy's rules are.
import { familyOf, isLoopback, prefixContains } from '../../lib/ip.ts';
import { isPodDevice } from '../decide/local-detector.ts';
import type { ClientPosition, LocalDetector, Plan } from '../types.ts';
import type { Packet } from './packet.ts';

type Kind = 'pod here' | 'pod elsewhere' | 'host process' | 'other node' | 'outside';

export interface Client {
  /** By which the plan's rules decide. */
  readonly position: ClientPosition;
  /** As dataplanes meet it: what is on another node comes in as packets from outside, pods too. */
  readonly servedAs: ClientPosition;
  /** For people. */
  readonly kind: Kind;
  /** Why, in words. */
  readonly reason: string;
}

const SERVED_AS: Readonly<Record<Kind, ClientPosition>> = {
  'pod here': 'pod',
  'host process': 'host',
  'pod elsewhere': 'outside',
  'other node': 'outside',
  outside: 'outside',
};

export function clientOf(plan: Plan, packet: Packet): Client {
  const found = decided(plan, packet);
  return { ...found, servedAs: SERVED_AS[found.kind] };
}

function decided(plan: Plan, packet: Packet): Omit<Client, 'servedAs'> {
  const { source } = packet;
  const isHost = isOwnAddress(plan, packet);
  const detector = plan.detector[familyOf(source)];
  const detected =
    detector === undefined
      ? undefined
      : (detectedBy(detector, packet, isHost) ?? presumed(plan, detector, packet, isHost));
  if (detected !== undefined) {
    const isHere = isPodHere(plan, packet) || detector?.kind !== 'cidr';
    const kind = isHost ? 'host process' : isHere ? 'pod here' : 'pod elsewhere';
    return { position: 'pod', kind, reason: detected };
  }
  if (isHost) {
    return {
      position: 'host',
      kind: 'host process',
      reason: `${source} is an address of this node`,
    };
  }
  const because =
    detector === undefined ? 'no local detector is configured' : missedBy(detector, packet);
  const outside = { position: 'outside', reason: because } as const;
  const neighbour = plan.node.others.get(source);
  if (neighbour !== undefined) {
    return { ...outside, kind: 'other node', reason: `${source} is Node ${neighbour}; ${because}` };
  }
  return { ...outside, kind: isPodHere(plan, packet) ? 'pod here' : 'outside' };
}

/** Only this node itself can send from an address to that same address. */
function isOwnAddress(plan: Plan, { source, destination }: Packet): boolean {
  return isLoopback(source) || plan.node.localAddresses.includes(source) || source === destination;
}

/** By the node's own podCIDRs; a Node without any in this family says nothing, and a pod that asks is here. */
function isPodHere({ node, detector }: Plan, { source }: Packet): boolean {
  const family = familyOf(source);
  const own = node.podCidrs.filter((cidr) => familyOf(cidr) === family);
  if (own.length > 0) return own.some((cidr) => prefixContains(cidr, source));
  const known = detector[family];
  return known?.kind === 'cidr' && prefixContains(known.cidr, source);
}

/** Interfaces are known for what comes in only: a process of the host has none. */
function detectedBy(detector: LocalDetector, packet: Packet, isHost: boolean): string | undefined {
  const { source, sourceInterface } = packet;
  switch (detector.kind) {
    case 'cidr':
      return prefixContains(detector.cidr, source) ? `${source} is in ${detector.cidr}` : undefined;
    case 'interface':
    case 'interface-prefix': {
      if (isHost || sourceInterface === undefined || !isPodDevice(detector, sourceInterface))
        return undefined;
      const why = detector.kind === 'interface' ? '' : `, which begins with ${detector.prefix}`;
      return `it came in by ${sourceInterface}${why}`;
    }
  }
}

/** A pod of this node sends by its own interface, whether or not the question names it. */
function presumed(
  plan: Plan,
  detector: LocalDetector,
  packet: Packet,
  isHost: boolean,
): string | undefined {
  if (detector.kind === 'cidr' || packet.sourceInterface !== undefined) return undefined;
  return !isHost && isPodHere(plan, packet)
    ? `${packet.source} is in this node's podCIDR, so it comes in by ${wantedInterface(detector)}`
    : undefined;
}

const wantedInterface = (detector: Exclude<LocalDetector, { readonly kind: 'cidr' }>): string =>
  detector.kind === 'interface' ? detector.name : `an interface ${detector.prefix}...`;

function missedBy(detector: LocalDetector, { source, sourceInterface }: Packet): string {
  if (detector.kind === 'cidr') return `${source} is not in ${detector.cidr}`;
  const wanted = wantedInterface(detector);
  return sourceInterface === undefined
    ? `only what comes in by ${wanted} is a pod's, and no interface was given`
    : `${sourceInterface} is not ${wanted}`;
}
