// SPDX-License-Identifier: Apache-2.0
// The addresses a Service answers on, per family, and the keys by which ownership of its frontends is
// decided. A family without a ClusterIP has no frontend at all, not even a NodePort
// (kube-proxy: NewServiceInfo per family).
import { flatText } from '../../lib/compact.ts';
import { familyOf } from '../../lib/ip.ts';
import {
  type AddressAt,
  FAMILIES,
  type Family,
  type FrontendKind,
  type Protocol,
  type Service,
  type ServicePort,
} from '../../model/types.ts';
import {
  exposedService,
  hasClusterIp,
  isExposedHere,
  type NodeLabels,
} from '../exposure/exposure.ts';
import type { ServicePlan } from '../types.ts';

export interface FrontendAddress {
  readonly kind: Exclude<FrontendKind, 'NodePort'>;
  readonly address: string;
  /** The field of the object that has the address. */
  readonly field: string;
}

/**
 * ClusterIP, external and load balancer addresses, each address once. An address that is both external and a load
 * balancer's counts as the latter: its source ranges must apply (kube-proxy does so since KEP-3866).
 */
export function frontendAddresses(
  service: Service,
  family: Family,
  allowExternalIps: boolean,
): readonly FrontendAddress[] {
  const clusterIp = service.clusterIps[family];
  if (clusterIp === undefined) return [];
  const found: FrontendAddress[] = hasClusterIp(service)
    ? [{ kind: 'ClusterIP', ...clusterIp }]
    : [];
  const add = (kind: FrontendAddress['kind'], list: readonly AddressAt[]): void => {
    for (const { address, field } of list) {
      if (familyOf(address) === family) found.push({ kind, address, field });
    }
  };
  if (allowExternalIps && service.externalIps.length > 0) {
    const balancers = new Set(service.loadBalancerIps.map((item) => item.address));
    add(
      'ExternalIP',
      service.externalIps.filter(
        ({ address }) => address !== clusterIp.address && !balancers.has(address),
      ),
    );
  }
  if (service.loadBalancerIps.length > 0) {
    add(
      'LoadBalancer',
      service.loadBalancerIps.filter(({ address }) => address !== clusterIp.address),
    );
  }
  return found;
}

/**
 * True if the service port has a frontend for traffic from outside. As in kube-proxy, external IPs count even
 * where they are switched off.
 */
export function isExternallyAccessible(
  service: Service,
  port: ServicePort,
  family: Family,
): boolean {
  const isOfFamily = ({ address }: AddressAt): boolean => familyOf(address) === family;
  return (
    port.nodePort !== undefined ||
    service.loadBalancerIps.some(isOfFamily) ||
    service.externalIps.some(isOfFamily)
  );
}

/** `10.96.0.10:80/TCP`, `[fd00::1]:80/TCP`. */
export function frontendKey(address: string, port: number, protocol: Protocol): string {
  return address.includes(':')
    ? flatText('[', address, ']:', String(port), '/', protocol)
    : flatText(address, ':', String(port), '/', protocol);
}

/** `*:30080/TCP IPv4`: the same number on every address of the node. */
export const nodePortKey = (port: number, protocol: Protocol, family: Family): string =>
  `*:${port}/${protocol} ${family}`;

/** Every frontend the Service asks for, each once; the health check node port counts as a NodePort. */
export function frontendKeysOf(service: Service, allowExternalIps: boolean): readonly string[] {
  const keys: string[] = [];
  for (const family of FAMILIES) {
    if (service.clusterIps[family] === undefined) continue;
    const addresses = frontendAddresses(service, family, allowExternalIps);
    for (const { port, protocol, nodePort } of service.ports) {
      for (const { address } of addresses) keys.push(frontendKey(address, port, protocol));
      if (nodePort !== undefined) keys.push(nodePortKey(nodePort, protocol, family));
    }
    if (service.healthCheckNodePort !== undefined) {
      keys.push(nodePortKey(service.healthCheckNodePort, 'TCP', family));
    }
  }
  return keys;
}

/** For views: what the Service's annotations leave out. */
export function exposureOf(
  asked: Service,
  {
    nodeLabels,
    allowExternalIps,
  }: { readonly nodeLabels: NodeLabels; readonly allowExternalIps: boolean },
): Pick<ServicePlan, 'exposure'> {
  const { exposure, ...all } = asked;
  if (exposure === undefined) return {};
  const exposed = exposedService(asked, nodeLabels);
  const made = new Set(frontendKeysOf(exposed, allowExternalIps));
  const withheld = frontendKeysOf(all, allowExternalIps).filter((key) => !made.has(key));
  return { exposure: { ...exposure, isHere: isExposedHere(asked, nodeLabels), withheld } };
}
