// SPDX-License-Identifier: Apache-2.0
// What a Service exposes on this node: the frontends of the kinds that it names, those for clients from outside only
// where its selector matches the node's labels. The rest is as if the Service had not asked for it; its ClusterIP
// refuses every port, as it does those that the Service does not have.
import { labelsOf, parseSelector } from '../../model/selector.ts';
import type { Family, FrontendKind, Service } from '../../model/types.ts';
import type { Frontend } from '../types.ts';

/** Of the node's Node object, as `role=edge,zone=a`; undefined: it is not known, and no selector matches. */
export type NodeLabels = string | undefined;

/** Whether the node is one of those that expose the Service. */
export function isExposedHere({ exposure }: Service, labels: NodeLabels): boolean {
  if (exposure?.nodes === undefined) return true;
  return labels !== undefined && parseSelector(exposure.nodes)?.(labelsOf(labels)) === true;
}

export const hasClusterIp = ({ exposure }: Service): boolean =>
  exposure?.kinds?.includes('ClusterIP') ?? true;

/** The Service without what this node does not expose; the same object if it exposes all. */
export function exposedService(service: Service, labels: NodeLabels): Service {
  const { exposure, ports } = service;
  if (exposure === undefined) return service;
  const isHere = isExposedHere(service, labels);
  const has = (kind: FrontendKind): boolean => isHere && (exposure.kinds?.includes(kind) ?? true);
  // An address that is both external and a load balancer's is the latter.
  const balancers = new Set(service.loadBalancerIps.map(({ address }) => address));
  return {
    ...service,
    externalIps: has('ExternalIP')
      ? service.externalIps.filter(({ address }) => !balancers.has(address))
      : [],
    loadBalancerIps: has('LoadBalancer') ? service.loadBalancerIps : [],
    ports: has('NodePort') ? ports : ports.map((port) => ({ ...port, nodePort: undefined })),
  };
}

/** The ClusterIP whose other ports are refused; one that is not exposed has no port at all. */
export const refusedAddress = (
  service: Service,
  family: Family,
  frontends: readonly Frontend[],
): string | undefined =>
  hasClusterIp(service)
    ? frontends.find(({ kind }) => kind === 'ClusterIP')?.address
    : service.clusterIps[family]?.address;
