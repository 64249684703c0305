// SPDX-License-Identifier: Apache-2.0
// Where the agent listens, by the plan: one listener for each frontend that it can serve, at addresses of the node, or at a
// port of 127.0.0.1 that stands for an address which the node does not have. Pure.

import { prefixContains } from '../../../lib/ip.ts';
import { CLIENT_POSITIONS } from '../../../plan/decide/traffic-rules.ts';
import type { Frontend, Plan, ServicePortPlan } from '../../../plan/types.ts';
import type { NodeAddress } from '../../dataplane.ts';
import { type FrontendId, frontendKeyText } from '../../entry.ts';

export interface Listener {
  /** Unique over both families: `IPv4 10.96.0.10:80/TCP`. */
  readonly key: string;
  readonly id: FrontendId;
  /** `namespace/name` */
  readonly service: string;
  readonly port: ServicePortPlan;
  readonly frontend: Frontend;
  readonly protocol: 'TCP' | 'UDP';
  /** Addresses to bind, at the frontend's port; `mapped`: a port of the loopback address stands for it. */
  readonly at: readonly string[] | 'mapped';
  /** Nobody gets a backend, and all are refused: nothing listens there, so that the kernel refuses. */
  readonly isClosed: boolean;
}

export interface Where {
  readonly nodeAddresses: readonly NodeAddress[];
  /** Addresses of Services may be added to the loopback device. */
  readonly addsAddresses: boolean;
}

export function listenersOf(plan: Plan, place: Where): ReadonlyMap<string, Listener> {
  const own = new Set(place.nodeAddresses.map(({ address }) => address));
  const found = new Map<string, Listener>();
  for (const [service, { ports }] of plan.services) {
    for (const port of ports) {
      const { protocol } = port;
      if (protocol === 'SCTP') continue;
      for (const frontend of port.frontends) {
        const id = idOf(port, frontend);
        const at = bound(plan, port, frontend, { ...place, own });
        const isClosed = isRefusedToAll(port, frontend);
        const key = frontendKeyText(id);
        found.set(key, { key, id, service, port, frontend, protocol, at, isClosed });
      }
    }
  }
  return found;
}

/** Addresses that the loopback device is to have. */
export const addressesOf = (listeners: Iterable<Listener>): ReadonlySet<string> =>
  new Set([...listeners].flatMap(({ frontend: { address } }) => address ?? []));

const idOf = ({ family, protocol }: ServicePortPlan, { address, port }: Frontend): FrontendId => ({
  family,
  address,
  port,
  protocol,
});

function bound(
  plan: Plan,
  { family }: ServicePortPlan,
  { address }: Frontend,
  { nodeAddresses, addsAddresses, own }: Where & { readonly own: ReadonlySet<string> },
): Listener['at'] {
  if (address !== undefined) return addsAddresses || own.has(address) ? [address] : 'mapped';
  const accepted = plan.nodePortAddresses[family];
  return nodeAddresses
    .filter((one) => one.family === family && one.address !== '::1')
    .map((one) => one.address)
    .filter((one) => accepted === 'all' || accepted.some((prefix) => prefixContains(prefix, one)));
}

/** Of one with source ranges some are dropped instead. */
const isRefusedToAll = (port: ServicePortPlan, { rules, isFiltered }: Frontend): boolean =>
  isFiltered !== true &&
  CLIENT_POSITIONS.every((position) => {
    const { scope, whenEmpty } = rules[position];
    return port[scope].length === 0 && whenEmpty === 'reject';
  });

/** The loopback address at which mapped listeners of a family are. */
export const mappedAddress = ({ family }: FrontendId): string =>
  family === 'IPv4' ? '127.0.0.1' : '::1';

/** What a client that has connected to `local` has asked for. */
export const destinationOf = ({ frontend }: Listener, local: string): string =>
  frontend.address ?? local;
