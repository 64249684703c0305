// SPDX-License-Identifier: Apache-2.0
// Who may use the filtered frontends of a Service: which frontends, and whether the node itself. The sources are read
// from the field and the annotations in model/service/source-ranges.ts.
import { familyOf, hostPrefix, prefixContains } from '../../lib/ip.ts';
import { compareText } from '../../lib/names.ts';
import { ANNOTATIONS } from '../../model/annotations.ts';
import type { Family, FrontendKind, PerFamily, Service, SourceFilter } from '../../model/types.ts';

/** Where ranges may hold; the first is the default. */
export const SCOPE_NAMES = ANNOTATIONS.scope.values;

const LOOPBACK: PerFamily<string> = { IPv4: '127.0.0.0/8', IPv6: '::1/128' };

/** Those for clients inside the cluster are never filtered. */
export const isFilteredKind = ({ filtersAll }: Service, kind: FrontendKind): boolean =>
  kind === 'LoadBalancer' || (filtersAll === true && kind !== 'ClusterIP');

/**
 * What holds for the node holds for the Service's own addresses: a node that has such an address talks to it from it
 * (allow-self, kube-proxy's isAllowedByLoadBalancerSourceRanges rules), and to a NodePort at loopback from there.
 */
export function sourcesWithSelf(
  service: Service,
  family: Family,
  self: string | undefined,
): SourceFilter | undefined {
  const filter = service.sources[family];
  if (filter === undefined || self === undefined) return filter;
  if (!filter.ranges.some((range) => prefixContains(range, self))) return filter;
  const { loadBalancerIps, externalIps, filtersAll } = service;
  const own = [...loadBalancerIps, ...(filtersAll ? externalIps : [])]
    .filter(({ address }) => familyOf(address) === family)
    .map(({ address }) => hostPrefix(address));
  const all = [...filter.ranges, ...own, ...(filtersAll ? [LOOPBACK[family]] : [])];
  return { ...filter, ranges: [...new Set(all)].sort(compareText) };
}

export const admits = ({ policy, ranges }: SourceFilter, source: string): boolean =>
  ranges.some((prefix) => prefixContains(prefix, source)) === (policy === 'allow');
