// SPDX-License-Identifier: Apache-2.0
// What the demo shows: its pods, its Services, and the manifests that describe them to the agent.
import type { Instance } from './agent.ts';
import { type Endpoint, endpointSlices, type Manifest, type SlicePort } from './manifests.ts';

export const WEB_PODS = ['web-1', 'web-2', 'web-3', 'web-4', 'web-5', 'web-6', 'web-7', 'web-8'];
export const DNS_PODS = ['dns-1', 'dns-2', 'dns-3'];
export const CLIENT_PODS = ['client-1', 'client-2'];

interface DemoService {
  /** IPv4, then IPv6. */
  readonly clusterIps: readonly [string, string];
  readonly port: number;
  /** What its pods listen on. */
  readonly slicePort: SlicePort;
  readonly hasAffinity?: boolean;
}

const HTTP: SlicePort = { name: 'http', port: 8080, protocol: 'TCP' };
const DNS: SlicePort = { name: 'dns', port: 5353, protocol: 'UDP' };

export type ServiceName = 'web' | 'dns' | 'sticky' | 'empty';

export const SERVICES: Readonly<Record<ServiceName, DemoService>> = {
  web: { clusterIps: ['10.96.0.10', 'fd00:96::10'], port: 80, slicePort: HTTP },
  dns: { clusterIps: ['10.96.0.53', 'fd00:96::53'], port: 53, slicePort: DNS },
  sticky: {
    clusterIps: ['10.96.0.20', 'fd00:96::20'],
    ...{ port: 80, slicePort: HTTP, hasAffinity: true },
  },
  empty: { clusterIps: ['10.96.0.30', 'fd00:96::30'], port: 80, slicePort: HTTP },
};

/** Every port a server pod answers on. */
export const SERVER_PORTS: readonly number[] = [HTTP.port, DNS.port];

export function serviceManifests(): Manifest[] {
  return Object.entries(SERVICES).map(([name, { clusterIps, port, slicePort, hasAffinity }]) => ({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace: 'default' },
    spec: {
      type: 'ClusterIP',
      clusterIP: clusterIps[0],
      clusterIPs: clusterIps,
      ipFamilies: ['IPv4', 'IPv6'],
      ipFamilyPolicy: 'RequireDualStack',
      ports: [
        { name: slicePort.name, port, targetPort: slicePort.port, protocol: slicePort.protocol },
      ],
      sessionAffinity: hasAffinity === true ? 'ClientIP' : 'None',
    },
  }));
}

/** Replaces the EndpointSlices of one Service; returns when they were in place. */
export function putEndpoints(
  instance: Instance,
  service: ServiceName,
  endpoints: readonly Endpoint[],
): number {
  const slices = endpointSlices(service, SERVICES[service].slicePort, endpoints);
  return instance.manifests.put(`${service}-endpoints.yaml`, slices);
}
