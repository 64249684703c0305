// SPDX-License-Identifier: Apache-2.0
// The counts of living flows between two rounds of the sweep, with what programs count meanwhile (bpf/common/live.h).
import { beforeEach, expect, test } from 'vitest';
import {
  createRecount,
  livingFlows,
  type Recount,
} from '../../../../../src/engines/bpf/flows/sweep/recount.ts';
import { type MemoryArray, memoryArray } from '../../../../support/tables/memory.ts';

const ID = 3;
/** struct backend_flows. */
interface Flows {
  older: number;
  newer: number;
  ended: number;
  met: number;
}

let backendFlows: MemoryArray;
let recount: Recount;
let nowMs: number;
beforeEach(() => {
  nowMs = 7_300;
  backendFlows = memoryArray('fl_be_flows', 5, 16);
  recount = createRecount({ tables: { backendFlows }, nowMs: () => nowMs });
});

const wordsOf = (id: number): Int32Array => new Int32Array(backendFlows.bytes.buffer, 16 * id, 4);
const set = ({ older, newer, ended, met }: Flows): void =>
  wordsOf(ID).set([older, newer, ended, met]);
const get = (): Flows => {
  const [older = 0, newer = 0, ended = 0, met = 0] = wordsOf(ID);
  return { older, newer, ended, met };
};

test.each<[string, Flows, number]>([
  ['all were met', { older: 5, newer: 0, ended: 0, met: 5 }, 5],
  ['some have ended before they were met', { older: 3, newer: 0, ended: 2, met: 3 }, 3],
  ['some after that', { older: 3, newer: 0, ended: 2, met: 5 }, 3],
  ['one was lost: there are no more than were met', { older: 6, newer: 0, ended: 0, met: 5 }, 5],
  ['one too few was counted', { older: 3, newer: 0, ended: 1, met: 5 }, 4],
  ['newer ones are the next round’s older ones', { older: 5, newer: 2, ended: 0, met: 5 }, 7],
  ['more newer ones have ended than begun', { older: 5, newer: -1, ended: 0, met: 5 }, 4],
  ['all have ended', { older: 0, newer: 0, ended: 4, met: 4 }, 0],
  ['less than none', { older: -2, newer: 0, ended: 0, met: 0 }, 0],
])('%s', (_, before, older) => {
  set(before);
  recount.turn(true);
  expect(get()).toEqual({ older, newer: 0, ended: 0, met: 0 });
});

test('a round that was not whole corrects nothing, and the next one begins', () => {
  set({ older: 6, newer: 2, ended: 1, met: 2 });
  recount.turn(false);
  expect(get()).toEqual({ older: 8, newer: 0, ended: 0, met: 0 });
});

test('each backend by itself; the first element says when the round began', () => {
  set({ older: 2, newer: 1, ended: 0, met: 1 });
  wordsOf(4).set([7, 0, 0, 7]);
  recount.turn(true);
  expect([...wordsOf(0)], 'a second that has not begun').toEqual([0, 0, 0, 8]);
  expect([...wordsOf(1)]).toEqual([0, 0, 0, 0]);
  expect([...wordsOf(4)]).toEqual([7, 0, 0, 0]);
  nowMs = 19_000;
  recount.turn(true);
  expect(wordsOf(0)[3]).toBe(20);
});

test('the round waits until programs see that second, a tick of their clock later', () => {
  expect(recount.waitMs()).toBe(0);
  recount.turn(false);
  expect(recount.waitMs()).toBe(8_020 - 7_300);
  nowMs = 8_019;
  expect(recount.waitMs()).toBe(1);
  nowMs = 9_000;
  expect(recount.waitMs()).toBe(0);
});

test('living flows are both, and never less than none', () => {
  set({ older: 4, newer: 3, ended: 9, met: 9 });
  expect(livingFlows(backendFlows, ID)).toBe(7);
  set({ older: 1, newer: -3, ended: 0, met: 0 });
  expect(livingFlows(backendFlows, ID)).toBe(0);
});
