// SPDX-License-Identifier: Apache-2.0
// The columns and rows of table.txt as objects: a Service with every kind of frontend, in each family and protocol, with
// each policy and each state of its endpoints, and who asks.
import type { Family, FrontendKind, Protocol } from '../../src/model/types.ts';
import type { NamedObject } from '../../src/plan/build.ts';
import { clusterIp, put, serviceObject, sliceMetadata, sliceObject } from '../support/objects.ts';
import { named } from './story.ts';

export const KINDS: readonly FrontendKind[] = [
  'ClusterIP',
  'ExternalIP',
  'LoadBalancer',
  'NodePort',
];
export const POLICIES = ['Cluster', 'Local'] as const;
const FAMILIES: readonly Family[] = ['IPv4', 'IPv6'];
const PROTOCOLS: readonly Protocol[] = ['TCP', 'UDP', 'SCTP'];
export const CLIENTS = ['pod', 'host', 'outside'] as const;
export const STATES = [
  'both',
  'here',
  'there',
  'leaving-here',
  'leaving',
  'leaving-there',
  'unready',
  'none',
] as const;

export type Policy = (typeof POLICIES)[number];
type State = (typeof STATES)[number];
type ClientName = (typeof CLIENTS)[number];

const READY = { ready: true, serving: true, terminating: false };
const LEAVING = { ready: false, serving: true, terminating: true };
const UNREADY = { ready: false, serving: true, terminating: false };

export const ADDRESSES = {
  IPv4: {
    A: '10.1.1.5',
    B: '10.1.2.5',
    pod: '10.1.1.9',
    host: '192.0.2.11',
    outside: '198.51.100.9',
    ClusterIP: '10.96.0.10',
    ExternalIP: '203.0.113.20',
    LoadBalancer: '203.0.113.10',
    NodePort: '192.0.2.11',
  },
  IPv6: {
    A: '2001:db8:1:1::5',
    B: '2001:db8:1:2::5',
    pod: '2001:db8:1:1::9',
    host: '2001:db8::11',
    outside: '2001:db8:ffff::9',
    ClusterIP: 'fd00:96::10',
    ExternalIP: '2001:db8:cb00::20',
    LoadBalancer: '2001:db8:cb00::10',
    NodePort: '2001:db8::11',
  },
} as const;

function endpointsOf(state: State, family: Family): readonly object[] {
  const { A, B } = ADDRESSES[family];
  const a = (conditions: object) => ({ addresses: [A], nodeName: 'n1', conditions });
  const b = (conditions: object) => ({ addresses: [B], nodeName: 'n2', conditions });
  const states: Readonly<Record<State, readonly object[]>> = {
    both: [a(READY), b(READY)],
    here: [a(READY)],
    there: [b(READY)],
    'leaving-here': [a(LEAVING), b(READY)],
    leaving: [a(LEAVING), b(LEAVING)],
    'leaving-there': [b(LEAVING)],
    unready: [a(UNREADY), b(UNREADY)],
    none: [],
  };
  return states[state];
}

/** A Service with every kind of frontend, in one family and protocol; the other policy stays Cluster. */
export function objectsOf(
  kind: FrontendKind,
  policy: Policy,
  what: Variant,
): readonly NamedObject[] {
  const { family, protocol, state } = what;
  const at = ADDRESSES[family];
  const web = serviceObject(
    'web',
    {
      type: 'LoadBalancer',
      ...clusterIp(at.ClusterIP),
      externalIPs: [at.ExternalIP],
      internalTrafficPolicy: kind === 'ClusterIP' ? policy : 'Cluster',
      externalTrafficPolicy: kind === 'ClusterIP' ? 'Cluster' : policy,
      ports: [{ name: 'p', port: 80, protocol, nodePort: 30080 }],
    },
    { status: { loadBalancer: { ingress: [{ ip: at.LoadBalancer }] } } },
  );
  const slice = sliceObject('web', endpointsOf(state, family), {
    metadata: sliceMetadata('web', 'web-1'),
    addressType: family,
    ports: [{ name: 'p', port: 8080, protocol }],
  });
  return [named('n1'), put(web), put(slice)];
}

export interface Variant {
  readonly family: Family;
  readonly protocol: Protocol;
  readonly state: State;
  readonly client: ClientName;
}

export const VARIANTS: readonly Variant[] = FAMILIES.flatMap((family) =>
  PROTOCOLS.flatMap((protocol) =>
    STATES.flatMap((state) => CLIENTS.map((client) => ({ family, protocol, state, client }))),
  ),
);
