// SPDX-License-Identifier: Apache-2.0
// The fields that Kubernetes 1.37 knows of the kinds a proxy reads (core/v1, discovery.k8s.io/v1,
// networking.k8s.io/v1), as data. A manifest with another field has a typing error that would otherwise stay
// silent: kubectl refuses it, and we would never read it.
import { isRecord } from '../../lib/json.ts';
import type { Kind } from '../../model/types.ts';

/** `true`: whatever is in it · a record: an object of these fields · a list: a list of such objects. */
type Known = true | { readonly [field: string]: Known } | readonly [Known];

/** Fields of which nothing inside is looked at: maps, lists of text, and what no proxy reads. */
const opaque = (names: string): Readonly<Record<string, true>> =>
  Object.fromEntries(names.split(' ').map((name) => [name, true]));

const CONDITIONS: Known = [
  opaque('lastTransitionTime message observedGeneration reason status type'),
];

const METADATA: Known = {
  ...opaque(
    'annotations creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers',
  ),
  ...opaque(
    'generateName generation labels managedFields name namespace resourceVersion selfLink uid',
  ),
  ownerReferences: [opaque('apiVersion blockOwnerDeletion controller kind name uid')],
};

const OBJECT = { apiVersion: true, kind: true, metadata: METADATA } as const;

const SERVICE: Known = {
  ...OBJECT,
  spec: {
    ...opaque('allocateLoadBalancerNodePorts clusterIP clusterIPs externalIPs externalName'),
    ...opaque('externalTrafficPolicy healthCheckNodePort internalTrafficPolicy ipFamilies'),
    ...opaque('ipFamilyPolicy loadBalancerClass loadBalancerIP loadBalancerSourceRanges'),
    ...opaque('publishNotReadyAddresses selector sessionAffinity trafficDistribution type'),
    ports: [opaque('appProtocol name nodePort port protocol targetPort')],
    sessionAffinityConfig: { clientIP: { timeoutSeconds: true } },
  },
  status: {
    conditions: CONDITIONS,
    loadBalancer: {
      ingress: [{ ...opaque('hostname ip ipMode'), ports: [opaque('error port protocol')] }],
    },
  },
};

const ENDPOINT_SLICE: Known = {
  ...OBJECT,
  addressType: true,
  ports: [opaque('appProtocol name port protocol')],
  endpoints: [
    {
      ...opaque('addresses deprecatedTopology hostname nodeName zone'),
      conditions: opaque('ready serving terminating'),
      hints: { forNodes: [{ name: true }], forZones: [{ name: true }] },
      targetRef: opaque('apiVersion fieldPath kind name namespace resourceVersion uid'),
    },
  ],
};

const NODE: Known = {
  ...OBJECT,
  spec: {
    ...opaque(
      'configSource externalID podCIDR podCIDRs podPreemptionPolicy providerID unschedulable',
    ),
    taints: [opaque('effect key timeAdded value')],
  },
  status: {
    ...opaque('allocatable capacity conditions config daemonEndpoints declaredFeatures features'),
    ...opaque('images nodeInfo phase runtimeHandlers volumesAttached volumesInUse'),
    addresses: [opaque('address type')],
  },
};

const SERVICE_CIDR: Known = {
  ...OBJECT,
  spec: { cidrs: true },
  status: { conditions: CONDITIONS },
};

const KNOWN: Readonly<Record<Kind, Known>> = {
  Service: SERVICE,
  EndpointSlice: ENDPOINT_SLICE,
  Node: NODE,
  ServiceCIDR: SERVICE_CIDR,
};

/** Shared: nearly every object has none. */
const NONE: readonly string[] = [];

/** `spec.prots`, `spec.ports[0].prot`. What has the wrong type is left to the model. Linear. */
export function unknownFields(kind: Kind, object: unknown): readonly string[] {
  const found: string[] = [];
  visit(KNOWN[kind], object, '', found);
  return found.length === 0 ? NONE : found;
}

function visit(known: Known, value: unknown, at: string, found: string[]): void {
  if (known === true) return;
  if (isList(known)) {
    if (!Array.isArray(value)) return;
    for (const [index, item] of value.entries()) visit(known[0], item, `${at}[${index}]`, found);
    return;
  }
  if (!isRecord(value)) return;
  for (const [name, inner] of Object.entries(value)) {
    const path = at === '' ? name : `${at}.${name}`;
    const field = Object.hasOwn(known, name) ? known[name] : undefined;
    if (field === undefined) found.push(path);
    else visit(field, inner, path, found);
  }
}

const isList = (known: Known): known is readonly [Known] => Array.isArray(known);
