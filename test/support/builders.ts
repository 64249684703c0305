// SPDX-License-Identifier: Apache-2.0
// Builders of Services and EndpointSlices: dual-stack, one port, in namespace default.

import type { Target } from '../../tools/lab/client/protocol.ts';
import { type Endpoint, endpointSlices, type Manifest } from '../../tools/lab/manifests.ts';
import { clusterIp, serviceObject } from './objects.ts';

export interface ServiceSpec {
  /** Last part of both ClusterIPs, 1..255: 10.96.0.N and fd00:96::N (in hex). */
  readonly n: number;
  readonly port?: number;
  /** The port the pods listen on. */
  readonly targetPort?: number;
  readonly protocol?: 'TCP' | 'UDP';
  /** Makes it a Service of type NodePort. */
  readonly nodePort?: number;
  /** Session affinity with this time-out. */
  readonly affinitySeconds?: number;
}

export const TARGET_PORT = 8080;

export function clusterIps(n: number): { ipv4: string; ipv6: string } {
  return { ipv4: `10.96.0.${n}`, ipv6: `fd00:96::${n.toString(16)}` };
}

export function svc(name: string, spec: ServiceSpec): Manifest {
  const { n, port = 80, targetPort = TARGET_PORT, protocol = 'TCP', affinitySeconds } = spec;
  const nodePort = spec.nodePort === undefined ? {} : { nodePort: spec.nodePort };
  const { ipv4, ipv6 } = clusterIps(n);
  const affinity = {
    sessionAffinity: 'ClientIP',
    sessionAffinityConfig: { clientIP: { timeoutSeconds: affinitySeconds } },
  };
  return serviceObject(
    name,
    {
      type: spec.nodePort === undefined ? 'ClusterIP' : 'NodePort',
      ...clusterIp(ipv4, ipv6),
      ipFamilyPolicy: 'RequireDualStack',
      ports: [{ name: 'main', port, targetPort, protocol, ...nodePort }],
      ...(affinitySeconds === undefined ? {} : affinity),
    },
    { metadata: { name, namespace: 'default' } },
  );
}

/** Both slices of a Service made by `svc`. */
export function slices(
  name: string,
  endpoints: readonly Endpoint[],
  { targetPort = TARGET_PORT, protocol = 'TCP' }: Partial<ServiceSpec> = {},
): Manifest[] {
  return endpointSlices(name, { name: 'main', port: targetPort, protocol }, endpoints);
}

/** A Service with these pods ready behind it. */
export function service(
  name: string,
  spec: ServiceSpec,
  pods: readonly Endpoint['pod'][],
): Manifest[] {
  const endpoints = pods.map((pod) => ({ pod }));
  return [svc(name, spec), ...slices(name, endpoints, spec)];
}

export type AddressKind = 'IPv4' | 'IPv6' | 'v4-mapped';

/** The address at which a client reaches a Service made by `svc`, by kind of socket. */
export function target(spec: ServiceSpec, kind: AddressKind = 'IPv4'): Target {
  const { ipv4, ipv6 } = clusterIps(spec.n);
  const address = { IPv4: ipv4, IPv6: ipv6, 'v4-mapped': `::ffff:${ipv4}` }[kind];
  return { protocol: spec.protocol ?? 'TCP', address, port: spec.port ?? 80 };
}
