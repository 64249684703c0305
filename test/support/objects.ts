// SPDX-License-Identifier: Apache-2.0
// Builders of API objects: small and valid, with one port `http` (80, on pods 8080), and overridden by tests. Used
// for the model, plans, files and API servers alike.
import type { Kind, ObjectChange } from '../../src/model/types.ts';

export interface ApiObject {
  readonly apiVersion: string;
  readonly kind: Kind;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    /** An API server's answers have it. */
    readonly resourceVersion?: string;
  };
  readonly [section: string]: unknown;
}

export type Put = Extract<ObjectChange, { type: 'put' }>;

/** The fields of a spec that give a Service these addresses alone: one, or one of each family. */
export const clusterIp = (first: string, ...others: readonly string[]) => ({
  clusterIP: first,
  clusterIPs: [first, ...others],
  ipFamilies: [first, ...others].map((address) => (address.includes(':') ? 'IPv6' : 'IPv4')),
});

/** `spec` is merged into that of the Service, `sections` replace its own. */
export function serviceObject(
  name: string,
  spec: object = {},
  sections: Readonly<Record<string, unknown>> = {},
): ApiObject {
  const ports = [{ name: 'http', port: 80, protocol: 'TCP', targetPort: 8080 }];
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name },
    spec: { ports, ...spec },
    ...sections,
  };
}

/** A slice of this Service, which has its name. */
export function sliceObject(
  owner: string,
  endpoints: readonly object[],
  sections: Readonly<Record<string, unknown>> = {},
): ApiObject {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: sliceMetadata(owner),
    addressType: 'IPv4',
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
    endpoints,
    ...sections,
  };
}

/** Of a slice of the Service `owner`. */
export const sliceMetadata = (owner: string, name = owner, labels: object = {}) => ({
  name,
  labels: { 'kubernetes.io/service-name': owner, ...labels },
});

export const readyEndpoint = (address: string, nodeName?: string) => ({
  addresses: [address],
  ...(nodeName === undefined ? {} : { nodeName }),
  conditions: { ready: true, serving: true, terminating: false },
});

export function nodeObject(
  name: string,
  sections: Readonly<Record<string, unknown>> = {},
): ApiObject {
  return { apiVersion: 'v1', kind: 'Node', metadata: { name }, ...sections };
}

/** The change that a source delivers for the object; without a namespace it is in `default`. */
export function put(object: ApiObject): Put {
  const { kind, metadata } = object;
  const namespace = kind === 'Node' ? '' : (metadata.namespace ?? 'default');
  return { type: 'put', ref: { kind, namespace, name: metadata.name }, object };
}

export const remove = ({ ref }: ObjectChange): ObjectChange => ({ type: 'remove', ref });
