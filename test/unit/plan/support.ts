// SPDX-License-Identifier: Apache-2.0
// Objects and settings for the tests of plans: small, valid, and changed where a test says so.
import type { ObjectChange, ObjectRef } from '../../../src/model/types.ts';
import type { PlanSettings } from '../../../src/plan/types.ts';

export const SETTINGS: PlanSettings = {
  nodeName: 'n1',
  detectLocalMode: 'ClusterCIDR',
  clusterCidrs: ['10.1.0.0/16'],
  masqueradeAll: false,
  nodePortAddresses: [],
  allowExternalIps: true,
};

export type Put = Extract<ObjectChange, { type: 'put' }>;

const put = (ref: ObjectRef, object: unknown): Put => ({ type: 'put', ref, object });

export const remove = ({ ref }: ObjectChange): ObjectChange => ({ type: 'remove', ref });

/** A Service with ClusterIP 10.96.0.`number` and one port. */
export function service(name: string, number: number, spec: object = {}, rest: object = {}): Put {
  const clusterIP = `10.96.0.${number}`;
  const basic = {
    clusterIP,
    clusterIPs: [clusterIP],
    ipFamilies: ['IPv4'],
    ports: [{ name: 'http', port: 80, protocol: 'TCP' }],
  };
  return put(
    { kind: 'Service', namespace: 'default', name },
    { metadata: { name }, spec: { ...basic, ...spec }, ...rest },
  );
}

export const ready = (address: string, nodeName = 'n1') => ({
  addresses: [address],
  nodeName,
  conditions: { ready: true, serving: true, terminating: false },
});

export function slice(owner: string, endpoints: readonly object[], patch: object = {}): Put {
  return put(
    { kind: 'EndpointSlice', namespace: 'default', name: `${owner}-1` },
    {
      metadata: { labels: { 'kubernetes.io/service-name': owner } },
      addressType: 'IPv4',
      ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
      endpoints,
      ...patch,
    },
  );
}

export function node(name: string, address: string, patch: object = {}): Put {
  return put(
    { kind: 'Node', namespace: '', name },
    { status: { addresses: [{ type: 'InternalIP', address }] }, ...patch },
  );
}
