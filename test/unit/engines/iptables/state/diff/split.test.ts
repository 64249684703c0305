// SPDX-License-Identifier: Apache-2.0
// A large diff in several transactions: a Service is never written in part, nothing leads to chains that are not there, and
// a transaction has no more chains than asked for.
import { describe, expect, test } from 'vitest';
import { diffTable } from '../../../../../../src/engines/iptables/state/diff/diff.ts';
import { splitDiff } from '../../../../../../src/engines/iptables/state/diff/split.ts';

const chain = (kind: string, service: number, endpoint = 0): string =>
  `KUBE-${kind}-${String.fromCharCode(65 + service)}${'A'.repeat(14)}${String.fromCharCode(65 + endpoint)}`;

/** As they are rendered: shared chains first, each Service's chains together, before those that they jump to. */
function chains(services: number): Map<string, string> {
  const numbers = Array.from({ length: services }, (_, service) => service);
  return new Map([
    ['KUBE-SERVICES', numbers.map((service) => `-j ${chain('SVC', service)}`).join('\n')],
    ['KUBE-MARK-MASQ', '-j MARK --set-xmark 0x4000/0x4000'],
    ...numbers.flatMap((service): [string, string][] => [
      [chain('SVC', service), [0, 1].map((one) => `-j ${chain('SEP', service, one)}`).join('\n')],
      ...[0, 1].map((one): [string, string] => [chain('SEP', service, one), '-j KUBE-MARK-MASQ']),
    ]),
  ]);
}

const wanted = (services: number) => ({
  name: 'nat' as const,
  chains: chains(services),
  jumps: [{ from: 'PREROUTING', rule: '-j KUBE-SERVICES' }],
});

const held = (services: number): Map<string, string> =>
  services === 0 ? new Map() : new Map([...chains(services), ['PREROUTING', '-j KUBE-SERVICES']]);

const names = (service: number): readonly string[] => [
  chain('SVC', service),
  chain('SEP', service, 0),
  chain('SEP', service, 1),
];

const parts = (from: number, to: number, most: number) =>
  splitDiff(diffTable(held(from), wanted(to)), most).map(({ filled, removed, emptied, jumps }) => ({
    filled: filled.map((one) => one.chain),
    ...{ removed, emptied, jumps: jumps.map((jump) => jump.from) },
  }));

describe('of a new table', () => {
  test('first what leads nowhere, then whole Services, last what leads to them', () => {
    const nothing = { removed: [], emptied: [], jumps: [] };
    expect(parts(0, 3, 4)).toEqual([
      { ...nothing, filled: ['KUBE-MARK-MASQ'] },
      { ...nothing, filled: [...names(0), ...names(1)] },
      { ...nothing, filled: names(2) },
      { ...nothing, filled: ['KUBE-SERVICES'], jumps: ['PREROUTING'] },
    ]);
  });

  test('a Service with more chains than that is a transaction of its own', () => {
    expect(parts(0, 2, 1).map(({ filled }) => filled)).toEqual([
      ['KUBE-MARK-MASQ'],
      names(0),
      names(1),
      ['KUBE-SERVICES'],
    ]);
  });

  test('one that is small enough stays one transaction', () => {
    expect(parts(0, 3, 11)).toHaveLength(1);
  });
});

test('chains of Services that are gone are emptied and removed when nothing leads to them any more', () => {
  const gone = [...names(1), ...names(2)];
  const steps = parts(3, 1, 4);
  expect(steps[0]).toMatchObject({ filled: ['KUBE-SERVICES'], emptied: [], removed: [] });
  expect(steps.slice(1).flatMap(({ emptied }) => emptied)).toEqual(gone);
  expect(steps.flatMap(({ removed }) => removed)).toEqual(gone);
  const lastEmptied = steps.findLastIndex(({ emptied }) => emptied.length > 0);
  expect(steps.findIndex(({ removed }) => removed.length > 0)).toBeGreaterThan(lastEmptied);
  expect(Math.max(...steps.map(({ removed }) => removed.length))).toBe(4);
});
