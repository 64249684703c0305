// SPDX-License-Identifier: Apache-2.0
// Objects that are almost right: a valid one in which one to four places hold something else entirely. The
// same seed always gives the same object, so a failure names what it needs.
import type { Kind } from '../../../src/model/types.ts';
import type { NamedObject } from '../../../src/plan/build.ts';

type Random = () => number;

/** Mulberry32. */
function randomFrom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const pick = <T>(random: Random, list: readonly T[]): T =>
  list[Math.floor(random() * list.length)]!;

const TEMPLATES: Readonly<Record<Kind, object>> = {
  Service: {
    metadata: { name: 'junk', labels: { app: 'x' }, creationTimestamp: '2026-01-01T00:00:00Z' },
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

function odd(random: Random, depth: number): unknown {
  switch (Math.floor(random() * 12)) {
    case 0:
      return null;
    case 1:
      return random() < 0.5;
    case 2:
      return Math.floor(random() * 200_000) - 60_000;
    case 3:
      return pick(random, [0, -0, 1e308, 1.5, Number.MAX_SAFE_INTEGER, 65_536, 70_000]);
    case 4:
    case 5:
    case 6:
      return pick(random, ODD_TEXT);
    case 7:
      return Array.from({ length: Math.floor(random() * 4) }, () => odd(random, depth + 1));
    case 8:
      return depth > 2 ? [] : { [pick(random, ODD_TEXT)]: odd(random, depth + 1) };
    case 9:
      return random() < 0.02 ? Array.from({ length: 2_000 }, () => pick(random, ODD_TEXT)) : [];
    case 10:
      return JSON.parse('{"__proto__": {"a": 1}, "constructor": 1, "length": 5}') as unknown;
    default:
      return undefined;
  }
}

/** A copy in which one place, chosen at random on the way down, holds something odd. */
function spoilt(value: unknown, random: Random): unknown {
  if (typeof value !== 'object' || value === null || random() < 0.15) return odd(random, 0);
  if (Array.isArray(value)) {
    const at = Math.floor(random() * (value.length + 1));
    const copy: unknown[] = [...value];
    copy[at] = at < value.length ? spoilt(value[at], random) : odd(random, 0);
    return copy;
  }
  const key = pick(random, Object.keys(value));
  return key === undefined
    ? odd(random, 0)
    : { ...value, [key]: spoilt((value as Record<string, unknown>)[key], random) };
}

const KINDS: readonly Kind[] = [
  'Service',
  'Service',
  'EndpointSlice',
  'EndpointSlice',
  'Node',
  'ServiceCIDR',
];

/** The object number `seed`: named `junk...`, with addresses and ports that nothing else has. */
export function junkAt(seed: number): NamedObject {
  const random = randomFrom(seed);
  const kind = pick(random, KINDS);
  const times = 1 + Math.floor(random() * 4);
  let object: unknown = TEMPLATES[kind];
  for (let time = 0; time < times; time += 1) object = spoilt(object, random);
  const isClusterScoped = kind === 'Node' || kind === 'ServiceCIDR';
  const name =
    kind === 'EndpointSlice' ? 'junk-1' : pick(random, ['junk', 'junk', 'x'.repeat(70), 'Junk/2']);
  return { ref: { kind, namespace: isClusterScoped ? '' : 'default', name }, object };
}
