// SPDX-License-Identifier: Apache-2.0
// Lists of backends in columns: read like arrays, share what they can, and equal ones are written equally.
import { expect, test } from 'vitest';
import { isSame } from '../../../../src/lib/json.ts';
import { pickBackends } from '../../../../src/plan/decide/backend-list.ts';

const addresses = ['10.1.1.1', '10.1.1.2', '10.1.1.3'];
const from = {
  addresses,
  ports: [80, 81, 81],
  areLocal: [false, false, true],
  areTerminating: false,
  weights: [1, 3, 3],
  nodes: undefined,
};

test('what is picked comes in order, each with its own port and place', () => {
  expect([...pickBackends(from, [0, 2])]).toEqual([
    { address: '10.1.1.1', port: 80, isLocal: false, isTerminating: false },
    { address: '10.1.1.3', port: 81, isLocal: true, isTerminating: false, weight: 3 },
  ]);
  const picked = pickBackends(from, [1, 2]);
  expect(picked).toHaveLength(2);
  expect(picked.map(({ address, port }) => `${address}:${port}`)).toEqual([
    '10.1.1.2:81',
    '10.1.1.3:81',
  ]);
});

test('nodes that are known are said of the backends on them', () => {
  const nodes = ['a', undefined, 'a'];
  expect(pickBackends({ ...from, nodes }, [0, 1, 2]).map(({ node }) => node)).toEqual(nodes);
  expect(pickBackends({ ...from, nodes }, [0, 2])).toMatchObject({ nodes: 'a' });
});

test('all of them share the addresses; what is alike is said once', () => {
  expect(pickBackends(from, [0, 1, 2])).toMatchObject({
    ports: [80, 81, 81],
    areTerminating: false,
  });
  expect(Reflect.get(pickBackends(from, [0, 1, 2]), 'addresses')).toBe(addresses);
  expect(pickBackends(from, [0, 1])).toMatchObject({ areLocal: false, ports: [80, 81] });
  expect(pickBackends(from, [1, 2])).toMatchObject({
    areLocal: [false, true],
    ports: 81,
    weights: 3,
  });
});

test('equal lists are the same, however they came about; others are not', () => {
  const alike = { ...from, ports: 81, areTerminating: [false, false, false] };
  expect(isSame(pickBackends(from, [1, 2]), pickBackends(alike, [1, 2]))).toBe(true);
  expect(isSame(pickBackends(from, [0, 1]), pickBackends(alike, [0, 1]))).toBe(false);
  expect(isSame(pickBackends(from, [1]), pickBackends(from, [2]))).toBe(false);
  expect(isSame(pickBackends(from, []), pickBackends(alike, []))).toBe(true);
});
