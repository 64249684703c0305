// SPDX-License-Identifier: Apache-2.0
// A plan of one Service, whose endpoint is a server of this process. Its ClusterIP is of a range for documentation
// (RFC 5737), so that no cluster has it. Pure.
import type { Protocol } from '../../../model/types.ts';
import type { Plan, ServicePortPlan, TrafficRule } from '../../../plan/types.ts';

export const PROBE_ADDRESS = '192.0.2.10';
export const PROBE_PORT = 80;

const RULE: TrafficRule = { scope: 'cluster', whenEmpty: 'reject', masquerade: false };

/** @param endpointPort of 127.0.0.1 */
export function planOf(endpointPort: number): Plan {
  const ports = [portOf('TCP', endpointPort)];
  const service = { namespace: 'fairlead', name: 'probe', type: 'ClusterIP' as const, ports };
  const none = { IPv4: undefined, IPv6: undefined };
  return {
    services: new Map([['fairlead/probe', service]]),
    nodePortAddresses: { IPv4: [], IPv6: [] },
    detector: none,
    node: {
      name: 'probe',
      zone: '',
      addresses: none,
      localAddresses: [],
      podCidrs: [],
      others: new Map(),
    },
    serviceCidrs: [],
    rejections: [],
  };
}

function portOf(protocol: Protocol, endpointPort: number): ServicePortPlan {
  const backend = {
    address: '127.0.0.1',
    port: endpointPort,
    isLocal: true,
    isTerminating: false,
  };
  return {
    key: `fairlead/probe/${protocol}/IPv4`,
    namespace: 'fairlead',
    name: 'probe',
    portName: '',
    protocol,
    family: 'IPv4',
    affinityTimeoutSeconds: 0,
    cluster: [backend],
    local: [],
    serving: [backend],
    frontends: [
      {
        kind: 'ClusterIP',
        address: PROBE_ADDRESS,
        port: PROBE_PORT,
        rules: { pod: RULE, host: RULE, outside: RULE },
      },
    ],
  };
}
