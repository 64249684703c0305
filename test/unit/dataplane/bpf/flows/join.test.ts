// SPDX-License-Identifier: Apache-2.0
// Joining the legs of flows: keys of one leg from another, states, orphans, and legs that move meanwhile.

import { describe, expect, test } from 'vitest';
import { elementsOf, latin1 } from '../../../../../src/dataplane/bpf/flows/flow-tables.ts';
import {
  flowTuple,
  joinFlow,
  joinOrphanNat,
  joinOrphanSnat,
  natTuple,
  snatToNatTuple,
  stateOf,
} from '../../../../../src/dataplane/bpf/flows/join.ts';
import { decodeFlow, decodeNat, decodeSnat } from '../../../../../src/dataplane/bpf/flows/legs.ts';
import {
  ascending,
  compareSides,
  decodeTuple,
  encodeTuple,
  orderOf,
  sideText,
} from '../../../../../src/dataplane/bpf/flows/tuple.ts';
import {
  BACKEND_FIN,
  BACKEND_RESET,
  CLIENT_FIN,
  CLIENT_RESET,
  type FlowFacts,
  legsOf,
  memoryFlowTables,
  putFlow,
  side,
  tuple,
} from '../../../../support/dataplane/flow-bytes.ts';

const FLOWS: Readonly<Record<string, FlowFacts>> = {
  'the client is the lower side': {
    client: '9.1.1.1:4000',
    frontend: '192.0.2.10:80',
    backend: '10.1.1.5:8080',
  },
  'the backend is the lower side': {
    client: '203.0.113.9:4000',
    frontend: '192.0.2.10:80',
    backend: '10.1.1.5:8080',
  },
  'masqueraded, with another port of the client': {
    client: '203.0.113.9:4000',
    frontend: '192.0.2.10:80',
    backend: '10.1.1.5:8080',
    snat: '10.1.0.1:40001',
    clientPort: 50_000,
  },
  'a pod that is its own backend: the ports decide': {
    client: '10.1.1.5:9000',
    frontend: '192.0.2.10:80',
    backend: '10.1.1.5:8080',
    snat: '10.1.0.1:9000',
  },
  IPv6: {
    client: '[2001:db8::9]:4000',
    frontend: '[fd00:96::a]:80',
    backend: '[fd00:10::5]:8080',
    snat: '[fd00:10::1]:4000',
  },
};
const family = ({ client }: FlowFacts) => (client.startsWith('[') ? 'IPv6' : 'IPv4');

describe.each(Object.entries(FLOWS))('%s', (_, facts) => {
  const of = family(facts);
  const legs = legsOf(facts);
  const keys = {
    flow: decodeTuple(legs.flow[0], of),
    nat: decodeTuple(legs.nat[0], of),
    snat: decodeTuple(legs.snat[0], of),
  };
  const decoded = {
    flow: decodeFlow(legs.flow[1], of),
    nat: decodeNat(legs.nat[1], of),
    snat: decodeSnat(legs.snat[1], of),
  };

  test('from each leg the key of another is made', () => {
    expect(encodeTuple(natTuple(keys.flow, decoded.flow), of)).toEqual(legs.nat[0]);
    expect(encodeTuple(flowTuple(keys.nat, decoded.nat), of)).toEqual(legs.flow[0]);
    expect(encodeTuple(snatToNatTuple(keys.snat, decoded.snat), of)).toEqual(legs.nat[0]);
  });

  test('all legs are found from the flow leg', () => {
    const tables = memoryFlowTables();
    putFlow(tables, facts);
    const joined = joinFlow(tables, of, legs.flow[0]);
    expect(joined && sideText(joined.client)).toBe(facts.client);
    expect(joined && sideText(joined.backend)).toBe(facts.backend);
    expect(joined?.nat && sideText(joined.nat.leg.frontend)).toBe(facts.frontend);
    expect(joined?.snat && sideText(joined.snat.address)).toBe(facts.snat);
  });

  test('legs in different tables are one flow', () => {
    const tables = memoryFlowTables();
    putFlow(tables, facts, 'main', ['flow']);
    putFlow(tables, facts, 'halfOpen', ['nat', 'snat']);
    const joined = joinFlow(tables, of, legs.flow[0]);
    expect(joined?.nat).toBeDefined();
    expect(joined?.snat !== undefined).toBe(facts.snat !== undefined);
  });

  test('a nat leg without a flow leg is an orphan, until there is one', () => {
    const tables = memoryFlowTables();
    putFlow(tables, facts, 'main', ['nat', 'snat']);
    const orphan = joinOrphanNat(tables, of, legs.nat[0]);
    expect(orphan && [sideText(orphan.client), sideText(orphan.backend)]).toEqual([
      facts.client,
      facts.backend,
    ]);
    expect(joinOrphanSnat(tables, of, legs.snat[0])).toBeUndefined();
    putFlow(tables, facts, 'halfOpen', ['flow']);
    expect(joinOrphanNat(tables, of, legs.nat[0])).toBeUndefined();
    expect(joinOrphanNat(tables, of, legs.flow[0])).toBeUndefined();
  });
});

test('a snat leg without a nat leg is an orphan', () => {
  const facts = FLOWS['IPv6'] as FlowFacts;
  const tables = memoryFlowTables();
  putFlow(tables, facts, 'halfOpen', ['snat']);
  const orphan = joinOrphanSnat(tables, 'IPv6', legsOf(facts).snat[0]);
  expect(orphan?.snat && sideText(orphan.snat.address)).toBe('[fd00:10::1]:4000');
  expect(orphan && sideText(orphan.client)).toBe('[2001:db8::9]:4000');
  expect(joinOrphanSnat(tables, 'IPv6', legsOf(facts).nat[0])).toBeUndefined();
});

test('a nat leg that leads to another frontend is not the flow’s', () => {
  const first: FlowFacts = {
    client: '203.0.113.9:4000',
    frontend: '192.0.2.10:80',
    backend: '10.1.1.5:8080',
  };
  const tables = memoryFlowTables();
  putFlow(tables, first, 'main', ['flow']);
  putFlow(tables, { ...first, frontend: '192.0.2.11:80' });
  expect(joinFlow(tables, 'IPv4', legsOf(first).flow[0])).not.toHaveProperty('nat');
});

test('a snat leg that leads to another client is not the flow’s', () => {
  const ended = FLOWS['masqueraded, with another port of the client'] as FlowFacts;
  const tables = memoryFlowTables();
  putFlow(tables, ended, 'main', ['flow', 'nat']);
  putFlow(tables, { ...ended, client: '203.0.113.8:4000' });
  const joined = joinFlow(tables, 'IPv4', legsOf(ended).flow[0]);
  expect(joined).toHaveProperty('nat');
  expect(joined).not.toHaveProperty('snat');
});

test('a flow that moves to the main table between two look-ups is found', () => {
  const facts = FLOWS['the backend is the lower side'] as FlowFacts;
  const tables = memoryFlowTables();
  putFlow(tables, facts, 'halfOpen');
  const { flow } = legsOf(facts);
  tables.IPv4.flow.halfOpen.onGet = () => {
    putFlow(tables, facts, 'main');
    tables.IPv4.flow.halfOpen.delete(flow[0]);
  };
  expect(joinFlow(tables, 'IPv4', flow[0])).toBeDefined();
});

test('each leg is read once, although it moves to the main table meanwhile', () => {
  const tables = memoryFlowTables();
  const facts = Array.from({ length: 7 }, (_, port) => ({
    client: `203.0.113.9:${4000 + port}`,
    frontend: '192.0.2.10:80',
    backend: '10.1.1.5:8080',
  }));
  for (const [at, flow] of facts.entries()) {
    putFlow(tables, flow, at < 4 ? 'halfOpen' : 'main', ['flow']);
  }
  const seen: string[] = [];
  for (const { key } of elementsOf(tables.IPv4.flow)) {
    seen.push(latin1(key));
    if (seen.length === 3) for (const flow of facts) putFlow(tables, flow, 'main', ['flow']);
  }
  expect(seen.sort()).toEqual(facts.map((flow) => latin1(legsOf(flow).flow[0])).sort());
});

test.each<[flowFlags: number, natFlags: number | undefined, state: FlowFacts['state'], string]>([
  [0, 0, 'new', 'new'],
  [0, 0, 'established', 'established'],
  [CLIENT_FIN, 0, 'established', 'half-closed'],
  [0, BACKEND_FIN, 'established', 'half-closed'],
  [0, BACKEND_FIN, 'new', 'half-closed'],
  [CLIENT_FIN, BACKEND_FIN, 'established', 'closed'],
  [CLIENT_RESET, 0, 'established', 'closed'],
  [0, BACKEND_RESET, 'new', 'closed'],
  [0, undefined, 'closed', 'closed'],
  [0, undefined, 'half-closed', 'half-closed'],
])('flags %i and %s with state %s: %s', (flowFlags, natFlags, state, expected) => {
  const facts: FlowFacts = {
    ...{ client: '203.0.113.9:4000', frontend: '192.0.2.10:80', backend: '10.1.1.5:8080' },
    flowFlags,
    ...(state !== undefined && { state }),
    ...(natFlags !== undefined && { natFlags }),
  };
  const { flow, nat } = legsOf(facts);
  const natLeg = natFlags === undefined ? undefined : decodeNat(nat[1], 'IPv4');
  expect(stateOf(decodeFlow(flow[1], 'IPv4'), natLeg)).toBe(expected);
});

test('sides are compared by address, then by port, and their order texts as well', () => {
  const sorted = ['2.0.0.1:1', '10.0.0.1:80', '10.0.0.1:443', '10.0.0.2:1', '200.0.0.1:1'].map(
    side,
  );
  for (const [at, low] of sorted.entries()) {
    for (const high of sorted.slice(at + 1)) {
      expect(compareSides(low, high)).toBeLessThan(0);
      expect(orderOf(low) < orderOf(high)).toBe(true);
      expect(ascending({ source: high, destination: low, protocol: 6 }).source).toBe(low);
    }
  }
  const key = tuple('10.0.0.1:80', '10.0.0.2:443', 17);
  expect(decodeTuple(encodeTuple(key, 'IPv4'), 'IPv4')).toEqual(key);
});
