// SPDX-License-Identifier: Apache-2.0
// Frontends at an address that this node has itself, as a DNS cache of the node has that of the cluster's DNS: while a
// process of the node listens at exactly that address, port and protocol, it gets what is sent there, and no dataplane
// translates it. Pure.

import { type FrontendAddress, frontendKey } from '../decide/frontends.ts';
import type { Backend, NodeFrontend, Plan, ServicePlan, ServicePortPlan } from '../types.ts';

/** What this node's own network namespace has. */
export interface NodeSockets {
  /** Canonical. */
  readonly addresses: ReadonlySet<string>;
  /** Sockets that listen at one address, by the keys of frontends: `10.96.0.10:53/UDP`. */
  readonly listeners: ReadonlySet<string>;
}

export const NO_NODE_SOCKETS: NodeSockets = { addresses: new Set(), listeners: new Set() };

/** What the Service may have at the address; undefined: the node does not have the address. */
export function nodeFrontend(
  { kind, address }: Pick<FrontendAddress, 'kind' | 'address'>,
  { port, protocol }: Pick<ServicePortPlan, 'protocol'> & { readonly port: number },
  serving: Iterable<Backend>,
  { addresses, listeners }: NodeSockets,
): NodeFrontend | undefined {
  if (!addresses.has(address)) return undefined;
  const isListenedTo =
    listeners.has(frontendKey(address, port, protocol)) && !isEndpoint(serving, address, port);
  return { kind, address, port, isListenedTo };
}

/** A listener that is itself an endpoint of the Service shares its connections with the others, as in kube-proxy. */
function isEndpoint(serving: Iterable<Backend>, address: string, port: number): boolean {
  for (const backend of serving) {
    if (backend.address === address && backend.port === port) return true;
  }
  return false;
}

export const isOnNode = ({ ports }: Pick<ServicePlan, 'ports'>): boolean =>
  ports.some(({ onNode }) => onNode !== undefined);

/** For a plan: `services` are its Services with frontends at addresses of the node. */
export const onNodeFlag = (services: ReadonlySet<string>): Pick<Plan, 'onNode'> =>
  services.size > 0 ? { onNode: services } : {};

/** A frontend at an address of the node, with the Service that asks for it. */
export interface FrontendOnNode extends NodeFrontend {
  /** `namespace/name`. */
  readonly service: string;
  /** `10.96.0.10:53/UDP`. */
  readonly key: string;
  readonly protocol: ServicePortPlan['protocol'];
}

export function* frontendsOnNode({
  services,
  onNode,
}: Pick<Plan, 'services' | 'onNode'>): Generator<FrontendOnNode> {
  for (const service of onNode ?? []) {
    for (const { onNode: found, protocol } of services.get(service)?.ports ?? []) {
      for (const one of found ?? []) {
        yield { ...one, service, protocol, key: frontendKey(one.address, one.port, protocol) };
      }
    }
  }
}
