// SPDX-License-Identifier: Apache-2.0
// Least connections: of few backends exactly the least, of more the better of two at random; by weights, with ties in
// proportion to them.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { SetRef } from '../../../../src/engines/bpf/layout/layout.ts';
import { setContent } from '../../../../src/engines/bpf/rows/service-port/set-content.ts';
import type { Algorithm } from '../../../../src/model/types.ts';
import { servicePort } from '../../../unit/engines/bpf/plans.ts';
import { Drive } from '../support/drive.ts';
import { countPicks, expectShares, PICKS } from '../support/shares.ts';

const VIP = '10.96.0.10';
const MANY = 1000;

let drive: Drive;
let stats: BigUint64Array;
let flows: Int32Array;
beforeAll(() => {
  drive = new Drive();
  stats = new BigUint64Array(drive.object.map('fl_be_stat').mmap());
  flows = new Int32Array(drive.object.map('fl_be_flows').mmap());
  for (let id = 1; id <= MANY; id++) {
    drive.putBackend({ id, address: `10.0.${id >> 8}.${id & 255}`, port: 8080 });
  }
});
afterAll(() => drive?.close());
beforeEach(() => {
  stats.fill(0n);
  flows.fill(0);
});

interface Load {
  readonly made?: number;
  readonly closed?: number;
  readonly older?: number;
  readonly newer?: number;
}

function load(id: number, { made = 0, closed = 0, older = 0, newer = 0 }: Load): void {
  stats.set([BigInt(made), BigInt(closed)], 2 * id);
  flows.set([older, newer], 4 * id);
}

const open = (id: number, connections: number): void =>
  load(id, { made: 100 + connections, closed: 100 });

const range = (count: number): readonly number[] => Array.from({ length: count }, (_, i) => i + 1);

/** As the agent writes it. */
function setOf(weights: readonly number[], algorithm: Algorithm, block = 16): SetRef {
  const ids = weights.map((_, index) => index + 1);
  const backends = weights.map((weight, index) => ({
    ...{ address: `10.0.0.${index}`, port: 8080, isLocal: false, isTerminating: false, weight },
  }));
  const { kind, table } = setContent(
    servicePort('web', [], backends),
    { algorithm, backends },
    { ascending: ids, asked: ids },
  );
  return drive.putSetOfKind(kind, block, ids, table);
}
const unweighted = (count: number) => setOf(Array(count).fill(1), 'least-connections');
const weighted = (weights: readonly number[]) => setOf(weights, 'weighted-least-connections');

describe('of few backends', () => {
  test.each([1, 2, 3, 8])('the least of %i gets all', (count) => {
    for (const id of range(count)) open(id, 5 + (id % 3));
    open(count, 4);
    expect(countPicks(drive, unweighted(count))[count]).toBe(PICKS);
  });

  test.each([2, 3, 7, 8])('%i that are equal have equal shares', (count) => {
    for (const id of range(count)) open(id, 7);
    expectShares(countPicks(drive, unweighted(count)), new Map(range(count).map((id) => [id, 1])));
  });

  test('only those that are tied share, wherever they are', () => {
    for (const [index, count] of [3, 1, 2, 1, 9, 1].entries()) open(index + 1, count);
    const picked = countPicks(drive, unweighted(6));
    expectShares(picked, new Map([2, 4, 6].map((id) => [id, 1])));
  });

  test('sockets and flows of packets count alike', () => {
    load(1, { made: 3, closed: 1 });
    load(2, { older: 1, newer: 2 });
    load(3, { made: 9, closed: 9, newer: 1 });
    expect(countPicks(drive, unweighted(3))[3]).toBe(PICKS);
  });

  test('a count that is below nothing is nothing', () => {
    load(1, { made: 1, closed: 3, older: -4 });
    load(2, { made: 5, closed: 5 });
    expectShares(countPicks(drive, unweighted(2)), new Map([1, 2].map((id) => [id, 1])));
  });
});

describe('of more', () => {
  test.each([9, 16, 40])('%i: the better of two', (count) => {
    for (const id of range(count)) open(id, id);
    const picked = countPicks(drive, unweighted(count));
    expect(picked[count]).toBe(0);
    // Of two different ones the better: the nth best in proportion to how many are worse.
    expectShares(picked, new Map(range(count - 1).map((id) => [id, count - id])));
  });

  test('a thousand that are equal have equal shares', () => {
    expectShares(countPicks(drive, unweighted(MANY)), new Map(range(MANY).map((id) => [id, 1])));
  });
});

describe('by weights', () => {
  test.each([
    ['twice the connections for twice the weight', [2, 1], [5, 3], 1],
    ['a count for a weight, not alone', [10, 1, 1], [9, 1, 2], 1],
    ['large weights', [65_535, 65_534], [65_535, 65_533], 2],
  ] as const)('%s', (_, weights, connections, least) => {
    for (const [index, count] of connections.entries()) open(index + 1, count);
    expect(countPicks(drive, weighted(weights))[least]).toBe(PICKS);
  });

  test.each([
    ['without connections', [5, 3, 2], [0, 0, 0]],
    ['with as many for each weight', [5, 3, 2, 1], [10, 6, 4, 2]],
    ['of more than few without connections', range(20), Array(20).fill(0)],
  ] as const)('shares are the weights: %s', (_, weights, connections) => {
    for (const [index, count] of connections.entries()) open(index + 1, count);
    expectShares(
      countPicks(drive, weighted(weights)),
      new Map(weights.map((weight, index) => [index + 1, weight])),
    );
  });

  test('of more than few the worse of two is not chosen', () => {
    const weights = Array.from({ length: 12 }, (_, index) => 1 + (index % 3));
    for (const id of range(12)) open(id, 0);
    open(12, 1000);
    const picked = countPicks(drive, weighted(weights));
    // Entries of the same backend may be the two.
    expect(picked[12]).toBeLessThan(PICKS / 50);
    expect(picked[11]).toBeGreaterThan(PICKS / 20);
  });

  test('an empty table selects nothing, and fails no program', () => {
    const set = drive.putSetOfKind('weighted-least-connections', 400, [1, 2, 3], []);
    expect(countPicks(drive, set)[0]).toBe(PICKS);
  });
});

test('session affinity goes before the count', () => {
  drive.putFrontend({
    address: VIP,
    port: 81,
    affinitySeconds: 600,
    rules: { host: { set: unweighted(2) } },
  });
  const request = { to: VIP, port: 81, source: '198.51.100.77' };
  const first = drive.select(request);
  open(first.id, 50);
  expect(drive.select(request)).toMatchObject({ id: first.id, byAffinity: true });
  drive.forgetAffinity();
  expect(drive.select(request).id).not.toBe(first.id);
});
