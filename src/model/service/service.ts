// SPDX-License-Identifier: Apache-2.0
// Service object (core/v1) -> Service. Skips what kube-proxy skips: ShouldSkipService in
// pkg/proxy/util, and the label selector of its watch. A bad entry is rejected alone; only a Service whose
// name, type or ClusterIP makes no sense is rejected whole.

import { isAbsent, isRecord, type JsonRecord, shown } from '../../lib/json.ts';
import { validateLabel } from '../../lib/names.ts';
import { ANNOTATIONS, CHOICES } from '../annotations.ts';
import {
  labelText,
  readAnnotationChoice,
  readChoice,
  readLabels,
  readPort,
  readRecord,
} from '../fields.ts';
import { SERVICE_PROXY_NAME_LABEL } from '../labels.ts';
import { collectRejections, type Reject } from '../rejection-collector.ts';
import { createSharing, type Sharing } from '../sharing.ts';
import type { ObjectRef, Projection, Service, ServicePort, TrafficPolicy } from '../types.ts';
import { readAddresses, type ServiceAddresses } from './addresses.ts';
import { readExposure } from './exposure.ts';
import { portField, readServicePorts } from './ports.ts';
import { readSources } from './source-ranges.ts';
import { readTableEntries } from './table-size.ts';

/** Default of the API: three hours. */
const DEFAULT_AFFINITY_SECONDS = 10_800;
const MAX_AFFINITY_SECONDS = 86_400;

/** Never throws, whatever `object` is. Linear in its size. Services share what their `sharing` knows. */
export function projectService(
  ref: ObjectRef,
  object: unknown,
  sharing: Sharing = createSharing(),
): Projection<Service> {
  const { reject, rejections } = collectRejections(ref);
  return { value: readService(ref, object, { reject, sharing }), rejections };
}

function readService(
  ref: ObjectRef,
  object: unknown,
  { reject, sharing }: { readonly reject: Reject; readonly sharing: Sharing },
): Service | undefined {
  if (!isRecord(object)) return reject('', `must be an object, not ${shown(object)}`);
  const labels = readLabels(object, reject);
  if (Object.hasOwn(labels, SERVICE_PROXY_NAME_LABEL)) return undefined;
  if (isAbsent(object['spec'])) return reject('spec', 'is missing');
  const spec = readRecord(object['spec'], 'spec', reject);
  if (spec === undefined || !isServed(labels, spec)) return undefined;
  const type = readType(spec['type'], reject);
  // All that is bad is told at once.
  const isNamed = hasGoodNames(ref, reject);
  const addresses = readAddresses(object, spec, reject);
  const ports = sharing.servicePorts(readServicePorts(spec['ports'], reject));
  if (!isNamed || type === undefined || addresses === undefined) return undefined;
  const policies = readPolicies(spec, type, addresses, reject);
  const exposure = readExposure(object, reject);
  return {
    namespace: ref.namespace,
    name: ref.name,
    type,
    labels: labelText(labels),
    createdAtMs: readCreatedAtMs(object, reject),
    ...(hasSelector(spec) && { hasSelector: true }),
    ports,
    clusterIps: addresses.clusterIps,
    externalIps: addresses.externalIps,
    loadBalancerIps: addresses.loadBalancerIps,
    internalPolicy: policies.internalPolicy,
    externalPolicy: policies.externalPolicy,
    affinityTimeoutSeconds: readAffinitySeconds(spec, reject),
    ...readChoices(object, reject),
    ...readTableEntries(object, reject),
    ...readProxyProtocol(object, reject),
    ...readSources(object, spec['loadBalancerSourceRanges'], reject),
    ...(exposure !== undefined && { exposure }),
    healthCheckNodePort: readHealthCheckPort(spec, policies.isLocalBalancer, { ports, reject }),
  };
}

function readProxyProtocol(object: JsonRecord, reject: Reject): Pick<Service, 'proxyProtocol'> {
  const proxyProtocol = readAnnotationChoice(object, ANNOTATIONS.proxyProtocol, reject);
  return proxyProtocol === undefined ? {} : { proxyProtocol };
}

const hasSelector = ({ selector }: JsonRecord): boolean =>
  isRecord(selector) && Object.keys(selector).length > 0;

/** Of this proxy, and with a frontend address. */
export const isServed = (labels: JsonRecord, spec: JsonRecord): boolean =>
  !Object.hasOwn(labels, SERVICE_PROXY_NAME_LABEL) &&
  spec['type'] !== 'ExternalName' &&
  !isHeadless(spec);

const isHeadless = (spec: JsonRecord): boolean =>
  isAbsent(spec['clusterIP']) || spec['clusterIP'] === '' || spec['clusterIP'] === 'None';

function hasGoodNames(ref: ObjectRef, reject: Reject): boolean {
  for (const part of ['namespace', 'name'] as const) {
    const problem = validateLabel(ref[part]);
    if (problem !== undefined) reject(`metadata.${part}`, `${shown(ref[part])} ${problem}`);
  }
  return validateLabel(ref.namespace) === undefined && validateLabel(ref.name) === undefined;
}

function readType(value: unknown, reject: Reject): Service['type'] | undefined {
  if (isAbsent(value) || value === 'ClusterIP') return 'ClusterIP';
  if (value === 'NodePort' || value === 'LoadBalancer') return value;
  return reject(
    'spec.type',
    `must be ClusterIP, NodePort, LoadBalancer or ExternalName, not ${shown(value)}`,
  );
}

interface Policies {
  readonly internalPolicy: TrafficPolicy;
  readonly externalPolicy: TrafficPolicy;
  readonly isLocalBalancer: boolean;
}

/** Local counts for traffic from outside only where such traffic can arrive (ExternalPolicyLocal in kube-proxy). */
function readPolicies(
  spec: JsonRecord,
  type: Service['type'],
  addresses: ServiceAddresses,
  reject: Reject,
): Policies {
  const read = (name: string): TrafficPolicy =>
    readChoice(spec[name], ['Cluster', 'Local'], `spec.${name}`, reject);
  const external = read('externalTrafficPolicy');
  const isHonoured = type !== 'ClusterIP' || addresses.externalIps.length > 0;
  return {
    internalPolicy: read('internalTrafficPolicy'),
    externalPolicy: isHonoured ? external : 'Cluster',
    isLocalBalancer: type === 'LoadBalancer' && external === 'Local',
  };
}

/** Milliseconds of metadata.creationTimestamp; Infinity if absent: the youngest of all. */
function readCreatedAtMs(object: JsonRecord, reject: Reject): number {
  const value = readRecord(object['metadata'], 'metadata', () => undefined)?.['creationTimestamp'];
  if (isAbsent(value)) return Number.POSITIVE_INFINITY;
  const isDate =
    typeof value === 'string' && /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)$/.test(value);
  const milliseconds = isDate ? Date.parse(value) : Number.NaN;
  if (!Number.isNaN(milliseconds)) return milliseconds;
  reject(
    'metadata.creationTimestamp',
    `must be a time such as 2026-01-31T08:00:00Z, not ${shown(value)}`,
  );
  return Number.POSITIVE_INFINITY;
}

function readAffinitySeconds(spec: JsonRecord, reject: Reject): number {
  const choices = ['None', 'ClientIP'] as const;
  const affinity = readChoice(spec['sessionAffinity'], choices, 'spec.sessionAffinity', reject);
  if (affinity === 'None') return 0;
  const field = 'spec.sessionAffinityConfig';
  const config = readRecord(spec['sessionAffinityConfig'], field, reject);
  const clientIp = readRecord(config?.['clientIP'], `${field}.clientIP`, reject);
  const seconds = clientIp?.['timeoutSeconds'];
  if (isAbsent(seconds)) return DEFAULT_AFFINITY_SECONDS;
  const isGood = typeof seconds === 'number' && Number.isInteger(seconds) && seconds >= 1;
  if (isGood && seconds <= MAX_AFFINITY_SECONDS) return seconds;
  reject(
    `${field}.clientIP.timeoutSeconds`,
    `must be 1 to ${MAX_AFFINITY_SECONDS} seconds, not ${shown(seconds)}`,
    `${DEFAULT_AFFINITY_SECONDS} is used`,
  );
  return DEFAULT_AFFINITY_SECONDS;
}

/** Only type LoadBalancer with external policy Local has one; 0 or absent = none. */
function readHealthCheckPort(
  spec: JsonRecord,
  isLocalBalancer: boolean,
  { ports, reject }: { readonly ports: readonly ServicePort[]; readonly reject: Reject },
): number | undefined {
  const value = spec['healthCheckNodePort'];
  if (isAbsent(value) || value === 0) return undefined;
  const port = readPort(value, 'spec.healthCheckNodePort', reject);
  if (port === undefined || !isLocalBalancer) return undefined;
  const taken = ports.find((other) => other.protocol === 'TCP' && other.nodePort === port);
  if (taken === undefined) return port;
  return reject(
    'spec.healthCheckNodePort',
    `${port} is already ${portField(taken.index)}.nodePort`,
  );
}

const ROWS = Object.entries(CHOICES);

/** Without those that are absent or, with a rejection, unknown: the default of the node serves. */
function readChoices(object: JsonRecord, reject: Reject): Pick<Service, keyof typeof CHOICES> {
  const read = ROWS.flatMap(([field, row]) => {
    const value = readAnnotationChoice(object, row, reject);
    return value === undefined ? [] : [[field, value]];
  });
  // A field of Service has the name of its row, and its type the values.
  return Object.fromEntries(read) as Pick<Service, keyof typeof CHOICES>;
}
