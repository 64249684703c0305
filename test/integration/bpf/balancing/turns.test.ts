// SPDX-License-Identifier: Apache-2.0
// Round robin: the exact order on one CPU, by weights too, and what begins a round anew. A run of many choices may be moved to
// another CPU in the middle, where the round is another one.
import { availableParallelism } from 'node:os';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { SetRef } from '../../../../src/engines/bpf/layout/layout.ts';
import { tableOrder } from '../../../../src/engines/bpf/rows/service-port/set-content.ts';
import { Drive } from '../support/drive.ts';
import { onOneCpu } from '../support/one-cpu.ts';

const VIP = '10.96.0.10';
const TO = { to: VIP, port: 80 };
/** Elements of fl_turn. */
const TURNS = 4096;

let drive: Drive;
beforeAll(() => {
  drive = new Drive();
  for (let id = 1; id <= 40; id++) drive.putBackend({ id, address: `10.1.1.${id}`, port: 8080 });
});
afterAll(() => drive?.close());
beforeEach(() => drive.forgetAffinity());

const serve = (set: SetRef, affinitySeconds = 0, port = 80): number =>
  drive.putFrontend({ address: VIP, port, affinitySeconds, rules: { host: { set } } });

/** Begins with the first 1, wherever the round began. */
const fromFirst = (order: readonly number[], first = 1): readonly number[] =>
  order.slice(order.indexOf(first));

const range = (count: number): readonly number[] => Array.from({ length: count }, (_, i) => i + 1);

describe('without weights', () => {
  onOneCpu();

  test.each([1, 2, 15, 16, 40])('%i backends are served in order', (count) => {
    const ids = range(count);
    serve(drive.putSetOfKind('round-robin', 1, ids));
    const order = drive.inOrder(TO, 4 * count);
    expect(fromFirst(order).slice(0, 3 * count)).toEqual([...ids, ...ids, ...ids]);
  });

  test('rounds begin anywhere', () => {
    const ids = range(16);
    const firsts = range(40).map((block) => {
      serve(drive.putSetOfKind('round-robin', 100 + 2 * block, ids));
      return drive.inOrder(TO, 1)[0];
    });
    // All the same with probability 16^-39.
    expect(new Set(firsts).size).toBeGreaterThan(1);
  });
});

describe('by weights', () => {
  onOneCpu();

  test.each([[[3, 1]], [[5, 3, 2]], [[7, 1, 1, 1]], [range(20)]])('%j', (weights) => {
    const ids = range(weights.length);
    const table = tableOrder(weights).map((index) => index + 1);
    serve(drive.putSetOfKind('weighted-round-robin', 200, ids, table));
    const order = drive.inOrder(TO, 3 * table.length);
    const rounds = Math.floor(order.length / table.length);
    for (const [index, id] of ids.entries()) {
      const count = order.filter((other) => other === id).length;
      expect(count).toBe(rounds * weights[index]!);
    }
    expect([...table, ...table].join()).toContain(order.slice(0, table.length).join());
  });
});

describe('a set that changes', () => {
  onOneCpu();

  test('in other blocks, begins a round of its own', () => {
    serve(drive.putSetOfKind('round-robin', 300, [1, 2, 3]));
    drive.inOrder(TO, 2);
    serve(drive.putSetOfKind('round-robin', 310, [4, 5, 6, 7]));
    const order = drive.inOrder(TO, 8);
    expect(fromFirst(order, 4).slice(0, 4)).toEqual([4, 5, 6, 7].slice(0, order.length));
    expect([...order].sort((a, b) => a - b)).toEqual([4, 4, 5, 5, 6, 6, 7, 7]);
  });

  test('to a smaller one in the same blocks, is served from its beginning', () => {
    serve(drive.putSetOfKind('round-robin', 320, range(12)));
    drive.inOrder(TO, 12);
    serve(drive.putSetOfKind('round-robin', 320, [1, 2]));
    const order = drive.inOrder(TO, 6);
    expect(order.every((id) => id === 1 || id === 2)).toBe(true);
    expect(order.filter((id) => id === 1)).toHaveLength(3);
  });
});

test('the next run goes on where the last one ended, and CPUs differ by one at most', () => {
  const ids = range(7);
  serve(drive.putSetOfKind('round-robin', 9, ids));
  const picked = range(50).flatMap(() => drive.inOrder(TO, 3));
  const counts = ids.map((id) => picked.filter((other) => other === id).length);
  expect(picked).toHaveLength(150);
  const difference = Math.max(...counts) - Math.min(...counts);
  expect(difference).toBeLessThanOrEqual(availableParallelism());
});

test('of two sets that share an element of fl_turn every choice is still a backend of its own set', () => {
  drive.putSetOfKind('round-robin', 330, [1, 2, 3]);
  serve(drive.putSetOfKind('round-robin', 330, [1, 2, 3]), 0, 80);
  serve(drive.putSetOfKind('round-robin', 330 + TURNS, [4, 5, 6]), 0, 81);
  for (let run = 0; run < 50; run++) {
    expect([1, 2, 3]).toContain(drive.select(TO).id);
    expect([4, 5, 6]).toContain(drive.select({ ...TO, port: 81 }).id);
  }
});

test('session affinity goes before the turn', () => {
  serve(drive.putSetOfKind('round-robin', 340, [1, 2, 3]), 600);
  expect(new Set(drive.inOrder({ ...TO, source: '192.0.2.1' }, 5)).size).toBe(1);
});
