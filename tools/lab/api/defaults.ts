// SPDX-License-Identifier: Apache-2.0
// The fields that an API server fills in and a proxy relies on. The name of a slice's port stays absent, which is
// case 43 and can come from an API server older than the default.
import type { JsonRecord } from '../../../src/lib/json.ts';
import { isRecord, recordOrEmpty } from '../../../src/lib/json.ts';

export interface StubObject extends JsonRecord {
  readonly kind: string;
  readonly metadata: JsonRecord & { readonly name: string; readonly namespace?: string };
}

const AFFINITY = { clientIP: { timeoutSeconds: 10_800 } };

export function defaulted(object: StubObject): StubObject {
  const metadata = {
    uid: `uid-${object.metadata.namespace ?? ''}-${object.metadata.name}`,
    creationTimestamp: '2026-01-31T08:00:00Z',
    ...object.metadata,
  };
  const complete = structuredClone({ ...object, metadata }) as StubObject;
  const { spec, ports, status } = complete;
  return {
    ...complete,
    ...(complete.kind === 'Service' && { spec: serviceSpec(recordOrEmpty(spec)) }),
    ...(complete.kind === 'EndpointSlice' && Array.isArray(ports) && { ports: ports.map(withTcp) }),
    ...(isRecord(status) && { status: withIpModes(status) }),
  };
}

const withTcp = (port: JsonRecord): JsonRecord => ({ protocol: 'TCP', ...port });

function serviceSpec(given: JsonRecord): JsonRecord {
  const spec: JsonRecord = { type: 'ClusterIP', sessionAffinity: 'None', ...given };
  const { type, sessionAffinity, externalIPs, ports } = spec;
  const affinity = sessionAffinity === 'ClientIP' ? { sessionAffinityConfig: AFFINITY } : {};
  if (type === 'ExternalName') return { ...affinity, ...spec };
  const isExternal = type !== 'ClusterIP' || externalIPs !== undefined;
  return {
    ...affinity,
    internalTrafficPolicy: 'Cluster',
    ...(isExternal && { externalTrafficPolicy: 'Cluster' }),
    ...spec,
    ...(Array.isArray(ports) && { ports: ports.map(servicePort) }),
  };
}

const servicePort = (port: JsonRecord): JsonRecord => ({
  protocol: 'TCP',
  targetPort: port['port'],
  ...port,
});

function withIpModes(status: JsonRecord): JsonRecord {
  const balancer = status['loadBalancer'];
  if (!isRecord(balancer) || !Array.isArray(balancer['ingress'])) return status;
  const ingress = balancer['ingress'].map((one: JsonRecord) =>
    one['ip'] === undefined ? one : { ipMode: 'VIP', ...one },
  );
  return { ...status, loadBalancer: { ...balancer, ingress } };
}
