// SPDX-License-Identifier: Apache-2.0
// Small plans by hand, so that dataplane tests need no model and no builder.
import type { Algorithm, SourceFilter } from '../../../../src/model/types.ts';
import type {
  Backend,
  Frontend,
  Plan,
  ServicePlan,
  ServicePortPlan,
  TrafficRule,
} from '../../../../src/plan/types.ts';

export const backend = (address: string, port = 8080, isLocal = false): Backend => ({
  address,
  port,
  isLocal,
  isTerminating: false,
});

const rule = (
  scope: TrafficRule['scope'] = 'cluster',
  whenEmpty: TrafficRule['whenEmpty'] = 'reject',
): TrafficRule => ({
  scope,
  whenEmpty,
  masquerade: false,
});

export const clusterIp = (address: string, port = 80): Frontend => ({
  kind: 'ClusterIP',
  address,
  port,
  rules: { pod: rule(), host: rule(), outside: rule() },
});

/** A NodePort whose outside traffic stays local (ETP Local). */
export const localNodePort = (port: number, hasDetector = true): Frontend => ({
  kind: 'NodePort',
  address: undefined,
  port,
  rules: {
    pod: hasDetector ? rule() : rule('local', 'drop'),
    host: rule(),
    outside: rule('local', 'drop'),
  },
});

export interface PortOptions {
  readonly sources?: SourceFilter;
  readonly family?: 'IPv4' | 'IPv6';
  readonly protocol?: 'TCP' | 'UDP';
  readonly local?: readonly Backend[];
  readonly serving?: readonly Backend[];
  readonly affinityTimeoutSeconds?: number;
  readonly algorithm?: Algorithm;
}

export function servicePort(
  name: string,
  frontends: readonly Frontend[],
  cluster: readonly Backend[],
  options: PortOptions = {},
): ServicePortPlan {
  const { sources } = options;
  const { family = 'IPv4', protocol = 'TCP', local = [], affinityTimeoutSeconds = 0 } = options;
  return {
    key: `default/${name}:http/${protocol}/${family}`,
    namespace: 'default',
    name,
    portName: 'http',
    protocol,
    family,
    affinityTimeoutSeconds,
    ...(options.algorithm && { algorithm: options.algorithm }),
    cluster,
    local,
    serving: options.serving ?? cluster,
    frontends,
    ...(sources && { sources }),
  };
}

/** As the planner has it: the first port with a ClusterIP refuses the others. */
function refusing(port: ServicePortPlan, known: ServicePlan | undefined): ServicePortPlan {
  const address = port.frontends.find(({ kind }) => kind === 'ClusterIP')?.address;
  const isRefused = known?.ports.some(
    ({ family, refusesOtherPortsOf }) =>
      family === port.family && refusesOtherPortsOf !== undefined,
  );
  return address === undefined || isRefused ? port : { ...port, refusesOtherPortsOf: address };
}

/** The same in all plans: nothing node-wide differs between them. */
const NO_DETECTOR = { IPv4: undefined, IPv6: undefined };

export function planOf(...ports: readonly ServicePortPlan[]): Plan {
  const services = new Map<string, ServicePlan>();
  for (const port of ports) {
    const key = `${port.namespace}/${port.name}`;
    const known = services.get(key);
    services.set(key, {
      namespace: port.namespace,
      name: port.name,
      type: 'ClusterIP',
      ports: [...(known?.ports ?? []), refusing(port, known)],
    });
  }
  return {
    services,
    nodePortAddresses: { IPv4: 'all', IPv6: 'all' },
    detector: NO_DETECTOR,
    node: {
      name: 'n1',
      zone: '',
      addresses: { IPv4: undefined, IPv6: undefined },
      localAddresses: [],
      podCidrs: [],
      others: new Map(),
    },
    serviceCidrs: [],
    rejections: [],
  };
}
