// SPDX-License-Identifier: Apache-2.0
// What is watched, and with which selectors: those of kube-proxy's informers (cmd/kube-proxy/app/server.go,
// pkg/proxy/node.go). Slices are not filtered by service-proxy-name there, nor here.

import { isRecord, type JsonRecord, recordOrEmpty } from '../../lib/json.ts';
import { HEADLESS_LABEL, SERVICE_PROXY_NAME_LABEL } from '../../model/labels.ts';
import type { Kind } from '../../model/types.ts';
import {
  type Prune,
  pruneNode,
  pruneOtherNode,
  pruneService,
  pruneServiceCidr,
  pruneSlice,
} from './decode/prune.ts';

/** What is watched: a kind, or the Nodes besides this one. */
export type WatchName = Kind | 'OtherNodes';

export interface KindSpec {
  readonly kind: Kind;
  /** In views and metrics; absent: its kind. */
  readonly name?: WatchName;
  readonly path: string;
  readonly labelSelector: string;
  readonly fieldSelector: string;
  /** Servers that cannot select by this field answer 400: then `isWanted` does the work alone. */
  readonly isFieldSelectorOptional: boolean;
  readonly prune: Prune;
  /** What the selectors should have kept away is kept away here too. */
  readonly isWanted: (object: JsonRecord) => boolean;
  /** Remembers contents, so that a change outside the kept part is no change. For small kinds. */
  readonly comparesContent: boolean;
  /** Every API server makes default/kubernetes when it starts: an empty list is never the truth. */
  readonly isNeverEmpty: boolean;
  /** 404 and 403 mean "this cluster has none". */
  readonly isOptional: boolean;
}

const COMMON = {
  labelSelector: '',
  fieldSelector: '',
  isFieldSelectorOptional: false,
  isWanted: () => true,
  comparesContent: false,
  isNeverEmpty: false,
  isOptional: false,
} as const;

export const SERVICES: KindSpec = {
  ...COMMON,
  kind: 'Service',
  path: '/api/v1/services',
  labelSelector: `!${SERVICE_PROXY_NAME_LABEL}`,
  fieldSelector: 'spec.clusterIP!=None',
  isFieldSelectorOptional: true,
  prune: pruneService,
  isWanted: (object) =>
    recordOrEmpty(object['spec'])['clusterIP'] !== 'None' &&
    !hasLabel(object, SERVICE_PROXY_NAME_LABEL),
  isNeverEmpty: true,
};

export const SLICES: KindSpec = {
  ...COMMON,
  kind: 'EndpointSlice',
  path: '/apis/discovery.k8s.io/v1/endpointslices',
  labelSelector: `!${HEADLESS_LABEL}`,
  prune: pruneSlice,
  isWanted: (object) => !hasLabel(object, HEADLESS_LABEL),
  isNeverEmpty: true,
};

/** This node's Node, never another. */
export function ownNode(nodeName: string): KindSpec {
  return {
    ...COMMON,
    kind: 'Node',
    path: '/api/v1/nodes',
    fieldSelector: `metadata.name=${nodeName}`,
    prune: pruneNode,
    isWanted: (object) => recordOrEmpty(object['metadata'])['name'] === nodeName,
    comparesContent: true,
  };
}

/** Those besides this one, for direct return: their addresses, and whether they take it. */
export function otherNodes(nodeName: string): KindSpec {
  return {
    ...COMMON,
    kind: 'Node',
    name: 'OtherNodes',
    path: '/api/v1/nodes',
    fieldSelector: `metadata.name!=${nodeName}`,
    prune: pruneOtherNode,
    isWanted: (object) => recordOrEmpty(object['metadata'])['name'] !== nodeName,
    comparesContent: true,
  };
}

export const SERVICE_CIDRS: KindSpec = {
  ...COMMON,
  kind: 'ServiceCIDR',
  path: '/apis/networking.k8s.io/v1/servicecidrs',
  prune: pruneServiceCidr,
  comparesContent: true,
  isOptional: true,
};

function hasLabel(object: JsonRecord, label: string): boolean {
  const labels = recordOrEmpty(object['metadata'])['labels'];
  return isRecord(labels) && Object.hasOwn(labels, label);
}
