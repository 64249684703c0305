// SPDX-License-Identifier: Apache-2.0
// A Service of both families with a TCP and a UDP port, and NodePorts for clients outside.
import type { ObjectText } from '../fixture/cases/case.ts';
import type { ProbeTarget } from '../fixture/programs/probe.ts';

const PORTS = [
  { name: 'http', port: 80, targetPort: 8080, protocol: 'TCP', nodePort: 30_080 },
  { name: 'dns', port: 53, targetPort: 5353, protocol: 'UDP', nodePort: 30_053 },
] as const;

export const serviceOf = (externalTrafficPolicy: 'Cluster' | 'Local'): ObjectText => ({
  use: 'dual',
  patch: {
    spec: { type: 'NodePort', ports: PORTS, externalTrafficPolicy, externalIPs: ['203.0.113.20'] },
  },
});

/** @param pod its addresses, one of each family */
export const endpointsOf = (pod: readonly string[], nodeName: string): readonly ObjectText[] =>
  pod.map((address) => ({
    use: address.includes(':') ? 'ab6' : 'a',
    patch: {
      ports: PORTS.map(({ name, targetPort, protocol }) => ({ name, port: targetPort, protocol })),
      endpoints: [{ addresses: [address], conditions: { ready: true }, nodeName }],
    },
  }));

type Protocol = 'TCP' | 'UDP';

export const nodePort = (address: string, protocol: Protocol): ProbeTarget => ({
  ...{ protocol, address, port: protocol === 'TCP' ? 30_080 : 30_053 },
});

export const servicePort = (address: string, protocol: Protocol): ProbeTarget => ({
  ...{ protocol, address, port: protocol === 'TCP' ? 80 : 53 },
});

/** What a client is answered by a pod: its name, `6` behind it over IPv6, and its port. */
export const answerOf = (pod: string, address: string, protocol: Protocol): string =>
  `${pod}${address.includes(':') ? '6' : ''}:${protocol === 'TCP' ? 8080 : 5353}`;
