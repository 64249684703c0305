// SPDX-License-Identifier: Apache-2.0
// What listens, as views show it.
import { hostPort } from '../../../lib/address-bytes.ts';
import type { ServicePortPlan } from '../../../plan/types.ts';
import type {
  BackendView,
  FrontendView,
  PortConnections,
  PortId,
  Snapshot,
} from '../../snapshot.ts';
import { backendText } from '../choice/balancer.ts';
import type { Counts } from '../choice/counts.ts';
import { type Listener, mappedAddress } from './listeners.ts';

export interface Shown {
  readonly listener: Listener;
  /** undefined: it is not mapped, or has no port yet. */
  readonly mappedPort: number | undefined;
}

const DATAPLANE = 'userspace';

export function viewsOf(shown: Iterable<Shown>, counts: Counts): Snapshot {
  const all = [...shown];
  const ports = new Map(all.map(({ listener: { port } }) => [port.key, port]));
  return {
    frontends: all.map((one) => frontendView(one, counts)),
    backends: [...ports.values()].flatMap((port) => backendViews(port, counts)),
  };
}

const portIdOf = ({ namespace, name, portName, protocol, family }: ServicePortPlan): PortId => ({
  ...{ namespace, name, portName, protocol, family },
});

function frontendView({ listener, mappedPort }: Shown, counts: Counts): FrontendView {
  const { id, key, port, frontend, at } = listener;
  const { host, outside } = frontend.rules;
  return {
    dataplane: DATAPLANE,
    id,
    port: portIdOf(port),
    internal: port[host.scope].map(backendText),
    external: port[outside.scope].map(backendText),
    internalEmpty: host.whenEmpty,
    externalEmpty: outside.whenEmpty,
    affinitySeconds: port.affinityTimeoutSeconds,
    ...counts.of(key),
    ...(at === 'mapped' &&
      mappedPort !== undefined && { reachedAt: hostPort(mappedAddress(id), mappedPort) }),
  };
}

const backendViews = (port: ServicePortPlan, counts: Counts): readonly BackendView[] =>
  port.serving.map((backend): BackendView => {
    const text = backendText(backend);
    return {
      ...{ dataplane: DATAPLANE, backend: text, port: portIdOf(port) },
      state: backend.isTerminating ? 'terminating' : 'active',
      isLocal: backend.isLocal,
      ...(counts.backend(port.key, text) ?? { connections: 0, open: 0 }),
    };
  });

/** Sums of the frontends of each service port. */
export function connectionsOf(shown: Iterable<Shown>, counts: Counts): readonly PortConnections[] {
  const sums = new Map<string, PortConnections>();
  for (const { listener } of shown) {
    const { key, port } = listener;
    const { connections, refused, dropped } = counts.of(key);
    const sum = sums.get(port.key);
    sums.set(port.key, {
      port: portIdOf(port),
      connections: connections + (sum?.connections ?? 0),
      refused: refused + (sum?.refused ?? 0),
      dropped: dropped + (sum?.dropped ?? 0),
    });
  }
  return [...sums.values()];
}
