// SPDX-License-Identifier: Apache-2.0
// What a Service asks for and does not get, although nothing about it is rejected: each by its own text. Pure.
import { familyOf } from '../lib/ip.ts';
import {
  type EndpointSlice,
  FAMILIES,
  type Family,
  type Service,
  type ServicePort,
} from '../model/types.ts';
import type { EmptyNote, UnservedAddress } from './types.ts';

/** Why a service port has no endpoint, not even one that is not ready; undefined: it has some. */
export function emptyNote(
  service: Service,
  port: ServicePort,
  family: Family,
  slices: readonly EndpointSlice[],
): EmptyNote | undefined {
  if (slices.length === 0) return { kind: 'no-slices', reason: noSlicesReason(service) };
  const own = slices.filter((slice) => slice.family === family);
  if (own.length === 0) {
    const types = [...new Set(slices.map((slice) => slice.family))];
    const hint = types.includes('FQDN') ? ': no proxy serves host names, write addresses' : '';
    const reason = `its EndpointSlices have the addressType ${types.join(' and ')}, this frontend is of ${family}${hint}`;
    return { kind: 'family', reason };
  }
  const ports = own.flatMap((slice) => slice.ports);
  if (ports.some(({ name, protocol }) => name === port.name && protocol === port.protocol))
    return undefined;
  const found = [...new Set(ports.map(portText))].join(', ') || 'no port';
  const reason = `the Service has ${portText(port)}, its EndpointSlices have ${found}: name and protocol must be the same`;
  return { kind: 'port', reason };
}

const portText = ({ name, protocol }: Pick<ServicePort, 'name' | 'protocol'>): string =>
  name === '' ? `a port without a name (${protocol})` : `port "${name}" (${protocol})`;

function noSlicesReason({ name, hasSelector }: Service): string {
  const label = `label kubernetes.io/service-name: ${name}`;
  return hasSelector === true
    ? `no EndpointSlice has the ${label}: the control plane has written none, or none is in the folder`
    : `the Service has no selector, so nobody writes EndpointSlices for it: write one with the ${label}`;
}

/** External and load balancer addresses of a family in which the Service has no ClusterIP: kube-proxy serves them neither. */
export function unservedAddresses(service: Service): readonly UnservedAddress[] {
  const { clusterIps, externalIps, loadBalancerIps } = service;
  const families = FAMILIES.filter((family) => clusterIps[family] !== undefined);
  if (families.length === FAMILIES.length) return [];
  return [...externalIps, ...loadBalancerIps].flatMap(({ address, field }) => {
    const family = familyOf(address);
    if (families.includes(family)) return [];
    const reason = `${address} is not served: the Service has no ClusterIP of ${family}; name ${family} in spec.ipFamilies`;
    return [{ address, field, reason }];
  });
}
