// SPDX-License-Identifier: Apache-2.0
// Objects that are almost right: a valid one in which one to four places hold something else entirely.
import fc from 'fast-check';
import type { Kind } from '../../../src/model/types.ts';
import type { NamedObject } from '../../support/plan/build-all.ts';
import { chance, some } from '../../support/random.ts';

const TEMPLATES: Readonly<Record<Kind, object>> = {
  Service: {
    metadata: {
      name: 'junk',
      labels: { app: 'x' },
      annotations: {
        'fairlead.io/source-ranges': '10.0.0.0/8',
        'fairlead.io/source-ranges-policy': 'deny',
        'fairlead.io/source-ranges-scope': 'all',
        'fairlead.io/expose': 'ClusterIP, NodePort',
        'fairlead.io/expose-on-nodes': 'role=edge',
      },
      creationTimestamp: '2026-01-01T00:00:00Z',
    },
    spec: {
      type: 'LoadBalancer',
      clusterIP: '10.96.9.9',
      clusterIPs: ['10.96.9.9', 'fd00:96::99'],
      ipFamilies: ['IPv4', 'IPv6'],
      ports: [{ name: 'http', port: 80, protocol: 'TCP', nodePort: 30999 }],
      externalIPs: ['203.0.113.99'],
      internalTrafficPolicy: 'Local',
      externalTrafficPolicy: 'Local',
      sessionAffinity: 'ClientIP',
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } },
      loadBalancerSourceRanges: ['10.0.0.0/8'],
      healthCheckNodePort: 32999,
    },
    status: { loadBalancer: { ingress: [{ ip: '203.0.113.98', ipMode: 'VIP' }] } },
  },
  EndpointSlice: {
    metadata: { name: 'junk-1', labels: { 'kubernetes.io/service-name': 'junk' } },
    addressType: 'IPv4',
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
    endpoints: [
      {
        addresses: ['10.1.9.9'],
        conditions: { ready: true, serving: true, terminating: false },
        nodeName: 'n1',
        zone: 'a',
        hints: { forZones: [{ name: 'a' }], forNodes: [{ name: 'n1' }] },
      },
      { addresses: ['10.1.9.10'] },
    ],
  },
  Node: {
    metadata: { labels: { 'topology.kubernetes.io/zone': 'a' } },
    spec: { podCIDR: '10.1.8.0/24', podCIDRs: ['10.1.8.0/24'] },
    status: { addresses: [{ type: 'InternalIP', address: '192.0.2.99' }] },
  },
  ServiceCIDR: { spec: { cidrs: ['10.96.0.0/16'] } },
};

const ODD_TEXT = [
  '',
  ' ',
  '0',
  '-1',
  'None',
  'x'.repeat(300),
  '10.0.0.0/8',
  '::/0',
  '1.2.3.4',
  'é\n\u0000',
  '__proto__',
  'toString',
  '{}',
  '10.96.9.9/33',
  'fe80::1%eth0',
  '999999999999999999999',
  '2026-13-45T99:99:99Z',
] as const;

const ODD_LIST = Array.from({ length: 2_000 }, (_, index) => ODD_TEXT[index % ODD_TEXT.length]);
const oddText = some(...ODD_TEXT);
const { odd } = fc.letrec<{ odd: unknown }>((tie) => ({
  odd: fc.oneof(
    { maxDepth: 3 },
    { weight: 3, arbitrary: oddText },
    { weight: 1, arbitrary: some(null, undefined) },
    { weight: 1, arbitrary: fc.boolean() },
    { weight: 1, arbitrary: fc.integer({ min: -60_000, max: 140_000 }) },
    { weight: 1, arbitrary: some(0, -0, 1e308, 1.5, Number.MAX_SAFE_INTEGER, 65_536, 70_000) },
    { weight: 1, arbitrary: fc.array(tie('odd'), { maxLength: 3 }) },
    {
      weight: 1,
      arbitrary: fc.tuple(oddText, tie('odd')).map(([key, value]) => ({ [key]: value })),
    },
    { weight: 1, arbitrary: chance(2).map((isLong) => (isLong ? ODD_LIST : [])) },
    {
      weight: 1,
      arbitrary: fc.constant(
        JSON.parse('{"__proto__": {"a": 1}, "constructor": 1, "length": 5}') as unknown,
      ),
    },
  ),
}));

/** A copy in which one field, reached by these turns, has an odd value. */
function spoilt(value: unknown, [turn, ...rest]: readonly number[], odd: unknown): unknown {
  if (typeof value !== 'object' || value === null || turn === undefined) return odd;
  if (Array.isArray(value)) {
    const at = turn % (value.length + 1);
    const copy: unknown[] = [...value];
    copy[at] = at < value.length ? spoilt(value[at], rest, odd) : odd;
    return copy;
  }
  const keys = Object.keys(value);
  const key = keys[turn % keys.length];
  return key === undefined
    ? odd
    : { ...value, [key]: spoilt((value as Record<string, unknown>)[key], rest, odd) };
}

const parts = fc.record({
  kind: some<Kind>('Service', 'Service', 'EndpointSlice', 'EndpointSlice', 'Node', 'ServiceCIDR'),
  name: some('junk', 'junk', 'x'.repeat(70), 'Junk/2'),
  places: fc.array(fc.record({ turns: fc.array(fc.nat({ max: 5_039 }), { maxLength: 6 }), odd }), {
    minLength: 1,
    maxLength: 4,
  }),
});

/** Named `junk...`, with addresses and ports that nothing else has. */
export const junk: fc.Arbitrary<NamedObject> = parts.map(({ kind, name, places }) => {
  const object = places.reduce<unknown>(
    (whole, { turns, odd }) => spoilt(whole, turns, odd),
    TEMPLATES[kind],
  );
  const namespace = kind === 'Node' || kind === 'ServiceCIDR' ? '' : 'default';
  return { ref: { kind, namespace, name: kind === 'EndpointSlice' ? 'junk-1' : name }, object };
});
