// SPDX-License-Identifier: Apache-2.0
// Random histories of a small, crowded cluster: few names, few addresses, so that Services get in each
// other's way, slices move between them, and this node's Node changes meanwhile.
import fc from 'fast-check';
import { CHOICES } from '../../../src/model/annotations.ts';
import type { Kind, ObjectChange } from '../../../src/model/types.ts';
import type { PlanSettings } from '../../../src/plan/types.ts';
import { SETTINGS } from './support.ts';

const some = <T>(...values: readonly T[]): fc.Arbitrary<T> => fc.constantFrom(...values);
const maybe = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.option(value, { nil: undefined });

const port = fc.record({
  name: some('http', 'dns', ''),
  port: some(80, 53, 0),
  protocol: some('TCP', 'UDP', undefined),
  nodePort: some(undefined, 30080, 30053),
});

const serviceSpec = fc.record({
  type: some('ClusterIP', 'NodePort', 'LoadBalancer', 'LoadBalancer', 'ExternalName', undefined),
  families: some(['IPv4'], ['IPv6'], ['IPv4', 'IPv6'], ['IPv6', 'IPv4']),
  number: fc.integer({ min: 1, max: 3 }),
  ports: fc.array(port, { maxLength: 3 }),
  externalIPs: fc.array(some('203.0.113.20', '10.96.0.1', '2001:db8::20', 'bad'), { maxLength: 2 }),
  ingress: fc.array(some('203.0.113.10', '203.0.113.20', '2001:db8::10'), { maxLength: 2 }),
  itp: some('Cluster', 'Local', undefined),
  etp: some('Cluster', 'Local', 'Nowhere'),
  ranges: maybe(fc.array(some('10.0.0.0/8', '192.0.2.0/24', '0.0.0.0/0', 'x'), { maxLength: 2 })),
  health: some(undefined, 32000),
  affinity: some('None', 'ClientIP'),
  created: some(undefined, '2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z'),
  label: some('', '', '', 'service.kubernetes.io/service-proxy-name'),
  choices: fc.tuple(
    ...Object.values(CHOICES).map(({ name, values }) =>
      some(undefined, undefined, 'unknown', ...values).map((value) => [name, value] as const),
    ),
  ),
  tableSize: some(undefined, undefined, '1000', '251', '509'),
  own: maybe(some('192.0.2.0/24', '10.0.0.0/8, ::/0', 'x')),
  policy: maybe(some('allow', 'deny', 'denied')),
  scope: maybe(some('all', 'LoadBalancer', 'none')),
  expose: maybe(some('LoadBalancer', 'ClusterIP, NodePort', 'ExternalIP', 'x')),
  nodes: maybe(some('role=edge', 'role!=edge', 'x in (')),
});

const clusterIp = (family: string, number: number): string =>
  family === 'IPv4' ? `10.96.0.${number}` : `fd00:96::${number}`;

const serviceObject = serviceSpec.map((one) => ({
  metadata: {
    creationTimestamp: one.created,
    labels: one.label === '' ? {} : { [one.label]: 'x' },
    annotations: {
      ...Object.fromEntries(one.choices),
      'fairlead.io/table-size': one.tableSize,
      'fairlead.io/source-ranges': one.own,
      'fairlead.io/source-ranges-policy': one.policy,
      'fairlead.io/source-ranges-scope': one.scope,
      'fairlead.io/expose': one.expose,
      'fairlead.io/expose-on-nodes': one.nodes,
    },
  },
  spec: {
    type: one.type,
    clusterIP: clusterIp(one.families[0] ?? '', one.number),
    clusterIPs: one.families.map((family) => clusterIp(family, one.number)),
    ipFamilies: one.families,
    ports: one.ports,
    externalIPs: one.externalIPs,
    internalTrafficPolicy: one.itp,
    externalTrafficPolicy: one.etp,
    loadBalancerSourceRanges: one.ranges,
    healthCheckNodePort: one.health,
    sessionAffinity: one.affinity,
  },
  status: { loadBalancer: { ingress: one.ingress.map((ip) => ({ ip })) } },
}));

const endpoint = fc.record({
  last: fc.integer({ min: 1, max: 4 }),
  conditions: some(
    {},
    { ready: true },
    { ready: false, serving: true, terminating: true },
    { ready: false, serving: true, terminating: false },
    { ready: false, serving: false, terminating: true },
    { ready: true, terminating: true },
  ),
  nodeName: some('n1', 'n2', undefined),
  hints: some(
    undefined,
    { forZones: [{ name: 'a' }] },
    { forZones: [{ name: 'b' }] },
    {
      forNodes: [{ name: 'n1' }],
    },
  ),
});

const sliceObject = fc
  .record({
    owner: some('s1', 's2', 's3', ''),
    family: some('IPv4', 'IPv4', 'IPv6', 'FQDN'),
    ports: fc.array(
      fc.record({
        name: some('http', 'dns', '', undefined),
        port: some(8080, 53, undefined),
        protocol: some('TCP', 'UDP'),
      }),
      { maxLength: 2 },
    ),
    endpoints: fc.array(endpoint, { maxLength: 5 }),
    weights: some(undefined, undefined, '10.1.1.1=3 10.1.1.2=0', '*=2 10.1.1.4=7', '*=0 x'),
  })
  .map(({ owner, family, ports, endpoints, weights }) => ({
    metadata: {
      labels: { 'kubernetes.io/service-name': owner },
      annotations: { 'fairlead.io/weights': weights },
    },
    addressType: family,
    ports,
    endpoints: endpoints.map(({ last, ...rest }) => ({
      addresses: [family === 'IPv4' ? `10.1.1.${last}` : `2001:db8:1::${last}`],
      ...rest,
    })),
  }));

const nodeObject = fc
  .record({
    zone: some('a', 'b', undefined),
    address: some('192.0.2.11', '10.0.0.1'),
    cidr: some('10.1.1.0/24', 'x'),
    role: some('edge', 'worker', undefined),
  })
  .map(({ zone, address, cidr, role }) => ({
    metadata: {
      labels: {
        ...(zone !== undefined && { 'topology.kubernetes.io/zone': zone }),
        ...(role !== undefined && { role }),
      },
    },
    spec: { podCIDRs: [cidr] },
    status: { addresses: [{ type: 'InternalIP', address }] },
  }));

const rangeObject = some('10.96.0.0/16', 'fd00:96::/112').map((cidr) => ({
  spec: { cidrs: [cidr] },
}));

const changeOf = (
  kind: Kind,
  names: readonly string[],
  object: fc.Arbitrary<unknown>,
): fc.Arbitrary<ObjectChange> =>
  fc
    .record({ name: some(...names), object: fc.option(object, { freq: 4 }) })
    .map(({ name, object: found }): ObjectChange => {
      const isClusterScoped = kind === 'Node' || kind === 'ServiceCIDR';
      const ref = { kind, namespace: isClusterScoped ? '' : 'default', name };
      return found === null ? { type: 'remove', ref } : { type: 'put', ref, object: found };
    });

export const change: fc.Arbitrary<ObjectChange> = fc.oneof(
  { weight: 5, arbitrary: changeOf('Service', ['s1', 's2', 's3'], serviceObject) },
  { weight: 5, arbitrary: changeOf('EndpointSlice', ['e1', 'e2', 'e3', 'e4'], sliceObject) },
  { weight: 1, arbitrary: changeOf('Node', ['n1', 'n2'], nodeObject) },
  { weight: 1, arbitrary: changeOf('ServiceCIDR', ['r1', 'r2'], rangeObject) },
  { weight: 1, arbitrary: changeOf('Service', ['s1', 's3'], fc.jsonValue()) },
  { weight: 1, arbitrary: changeOf('EndpointSlice', ['e1', 'e4'], fc.jsonValue()) },
);

/** Batches of changes, as they might come from a watch. */
export const history = fc.array(fc.array(change, { maxLength: 5 }), { maxLength: 12 });

export const settings: fc.Arbitrary<PlanSettings> = fc
  .record({
    detectLocalMode: some('ClusterCIDR' as const, 'NodeCIDR' as const, 'BridgeInterface' as const),
    clusterCidrs: some([], ['10.1.0.0/16'], ['10.1.0.0/16', '2001:db8::/32']),
    masqueradeAll: fc.boolean(),
    nodePortAddresses: some([], ['primary'], ['10.0.0.0/8']),
    allowExternalIps: fc.boolean(),
  })
  .map((some) => ({ ...SETTINGS, ...some }));
