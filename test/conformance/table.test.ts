// SPDX-License-Identifier: Apache-2.0
// table.txt, cell by cell: frontend kind x policy x family x protocol x client x state of endpoints.
// An empty cell fails, unless it is listed here as meaningless.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Family, Protocol } from '../../src/model/types.ts';
import { buildAll, type NamedObject } from '../../src/plan/build.ts';
import { explain } from '../../src/plan/explain/explain.ts';
import type { FrontendKind } from '../../src/plan/types.ts';
import { fixture, named } from './story.ts';

const KINDS: readonly FrontendKind[] = ['ClusterIP', 'ExternalIP', 'LoadBalancer', 'NodePort'];
const POLICIES = ['Cluster', 'Local'] as const;
const FAMILIES: readonly Family[] = ['IPv4', 'IPv6'];
const PROTOCOLS: readonly Protocol[] = ['TCP', 'UDP', 'SCTP'];
const CLIENTS = ['pod', 'host', 'outside'] as const;
const STATES = [
  'both',
  'here',
  'there',
  'leaving-here',
  'leaving',
  'leaving-there',
  'unready',
  'none',
] as const;

type Policy = (typeof POLICIES)[number];
type State = (typeof STATES)[number];
type ClientName = (typeof CLIENTS)[number];

/** Cells without a meaning, as `class policy client state`: there are none. */
const NOT_APPLICABLE: ReadonlySet<string> = new Set();

interface Cell {
  readonly outcome: string;
  readonly isMasqueraded: boolean;
}

function readTable(): ReadonlyMap<string, Cell> {
  const text = readFileSync(join(import.meta.dirname, 'table.txt'), 'utf8');
  const [header = [], ...rows] = text
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => line.split(/\s+/));
  const cells = new Map<string, Cell>();
  for (const [kind, policy, client, snat, ...outcomes] of rows) {
    for (const [index, outcome] of outcomes.entries()) {
      const key = [kind, policy, client, header[index + 4]].join(' ');
      expect(cells.has(key), `${key} is stated twice`).toBe(false);
      cells.set(key, { outcome, isMasqueraded: snat === 'yes' });
    }
  }
  return cells;
}

const READY = { ready: true, serving: true, terminating: false };
const LEAVING = { ready: false, serving: true, terminating: true };
const UNREADY = { ready: false, serving: true, terminating: false };

const ADDRESSES = {
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
function objectsOf(kind: FrontendKind, policy: Policy, what: Variant): readonly NamedObject[] {
  const { family, protocol, state } = what;
  const at = ADDRESSES[family];
  const metadata = { namespace: 'default', name: 'web' };
  const service = {
    metadata,
    spec: {
      type: 'LoadBalancer',
      clusterIP: at.ClusterIP,
      clusterIPs: [at.ClusterIP],
      ipFamilies: [family],
      externalIPs: [at.ExternalIP],
      internalTrafficPolicy: kind === 'ClusterIP' ? policy : 'Cluster',
      externalTrafficPolicy: kind === 'ClusterIP' ? 'Cluster' : policy,
      ports: [{ name: 'p', port: 80, protocol, nodePort: 30080 }],
    },
    status: { loadBalancer: { ingress: [{ ip: at.LoadBalancer }] } },
  };
  const slice = {
    metadata: { labels: { 'kubernetes.io/service-name': 'web' } },
    addressType: family,
    ports: [{ name: 'p', port: 8080, protocol }],
    endpoints: endpointsOf(state, family),
  };
  return [
    named('n1'),
    { ref: { kind: 'Service', ...metadata }, object: service },
    { ref: { kind: 'EndpointSlice', namespace: 'default', name: 'web-1' }, object: slice },
  ];
}

interface Variant {
  readonly family: Family;
  readonly protocol: Protocol;
  readonly state: State;
  readonly client: ClientName;
}

const VARIANTS: readonly Variant[] = FAMILIES.flatMap((family) =>
  PROTOCOLS.flatMap((protocol) =>
    STATES.flatMap((state) => CLIENTS.map((client) => ({ family, protocol, state, client }))),
  ),
);

function checkCell(kind: FrontendKind, policy: Policy, what: Variant, cell: Cell): void {
  const { family, protocol, client } = what;
  const at = ADDRESSES[family];
  const plan = buildAll(objectsOf(kind, policy, what), fixture.settings);
  const met = explain(plan, {
    source: at[client],
    protocol,
    destination: at[kind],
    destinationPort: kind === 'NodePort' ? 30080 : 80,
  });
  const isForward = /^[AB]+$/.test(cell.outcome);
  const text = (name: string): string => {
    const address = at[name as 'A' | 'B'];
    return family === 'IPv6' ? `[${address}]:8080` : `${address}:8080`;
  };
  expect(
    { verdict: met.verdict, backends: met.backends, masquerade: met.masquerade },
    `${kind} ${policy} ${JSON.stringify(what)}`,
  ).toEqual({
    verdict: isForward ? 'forward' : cell.outcome,
    backends: isForward ? [...cell.outcome].map(text) : [],
    masquerade: isForward && cell.isMasqueraded,
  });
}

describe('table.txt', () => {
  const table = readTable();
  for (const kind of KINDS) {
    for (const policy of POLICIES) {
      it(`${kind} with policy ${policy}: every family, protocol, client and state of endpoints`, () => {
        for (const what of VARIANTS) {
          const row = kind === 'ClusterIP' ? kind : 'external';
          const key = [row, policy, what.client, what.state].join(' ');
          if (NOT_APPLICABLE.has(key)) continue;
          const cell = table.get(key);
          if (cell === undefined) throw new Error(`table.txt has no cell for ${key}`);
          checkCell(kind, policy, what, cell);
        }
      });
    }
  }

  it('has only cells of the product of kinds, policies, clients and states', () => {
    const known = ['ClusterIP', 'external'].flatMap((row) =>
      POLICIES.flatMap((policy) =>
        CLIENTS.flatMap((client) => STATES.map((state) => [row, policy, client, state].join(' '))),
      ),
    );
    expect([...table.keys()].sort()).toEqual(known.sort());
  });
});
