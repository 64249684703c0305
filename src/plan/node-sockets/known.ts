// SPDX-License-Identifier: Apache-2.0
// The sockets and addresses of this node that a planner knows, and which Services a change of them concerns.
import { FAMILIES, type Service } from '../../model/types.ts';
import { frontendAddresses } from '../decide/frontends.ts';
import type { ModelStore } from '../model-store.ts';
import type { PlanSettings, ServiceKey } from '../types.ts';
import { NO_NODE_SOCKETS, type NodeSockets } from './frontends.ts';

export interface KnownSockets {
  readonly current: () => NodeSockets;
  readonly set: (next: NodeSockets) => void;
  /** The Services that changes since the last call concern. */
  readonly takeConcerned: () => Iterable<ServiceKey>;
}

/** Cost of `set`: linear in the listeners that came or went; of addresses, in all Services. */
export function createKnownSockets(
  { services, owners }: Pick<ModelStore, 'services' | 'owners'>,
  { allowExternalIps }: Pick<PlanSettings, 'allowExternalIps'>,
): KnownSockets {
  let sockets = NO_NODE_SOCKETS;
  let concerned = new Set<ServiceKey>();

  const hasOneOf = (service: Service, addresses: ReadonlySet<string>): boolean =>
    FAMILIES.some((family) =>
      frontendAddresses(service, family, allowExternalIps).some((one) =>
        addresses.has(one.address),
      ),
    );

  const set = (next: NodeSockets): void => {
    const addresses = differing(next.addresses, sockets.addresses);
    for (const key of differing(next.listeners, sockets.listeners)) {
      for (const service of owners.askingFor(key)) concerned.add(service);
    }
    for (const [key, service] of addresses.size > 0 ? services : []) {
      if (hasOneOf(service, addresses)) concerned.add(key);
    }
    sockets = next;
  };

  const takeConcerned = (): Iterable<ServiceKey> => {
    const taken = concerned;
    concerned = new Set();
    return taken;
  };

  return { current: () => sockets, set, takeConcerned };
}

/** What is in one of the two alone. */
const differing = (a: ReadonlySet<string>, b: ReadonlySet<string>): ReadonlySet<string> =>
  new Set([...[...a].filter((one) => !b.has(one)), ...[...b].filter((one) => !a.has(one))]);
