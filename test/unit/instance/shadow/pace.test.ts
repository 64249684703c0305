// SPDX-License-Identifier: Apache-2.0
// When the plan and the rules are compared.
import { expect, test } from 'vitest';
import { LONGEST_WAIT_MS, Pace, REST } from '../../../../src/instance/shadow/pace.ts';

const WAIT = 10_000;

test('nothing is due until something has changed, and then once', () => {
  const pace = new Pace(WAIT);
  expect(pace.dueMs()).toBeUndefined();
  pace.changed(5);
  expect(pace.dueMs()).toBe(5 + WAIT);
  pace.begun();
  expect(pace.dueMs()).toBeUndefined();
});

test('another change puts it off, but not for ever', () => {
  const pace = new Pace(WAIT);
  for (const atMs of [0, 4_000, 8_000]) pace.changed(atMs);
  expect(pace.dueMs()).toBe(8_000 + WAIT);
  for (let atMs = 9_000; atMs <= 2 * LONGEST_WAIT_MS; atMs += 9_000) pace.changed(atMs);
  expect(pace.dueMs()).toBe(LONGEST_WAIT_MS);
});

test('a wait that is longer than that counts', () => {
  const pace = new Pace(5 * LONGEST_WAIT_MS);
  pace.changed(7);
  expect(pace.dueMs()).toBe(7 + 5 * LONGEST_WAIT_MS);
});

test('what changes while it compares is due after a rest', () => {
  const pace = new Pace(WAIT);
  pace.changed(0);
  pace.begun();
  pace.changed(20_000);
  pace.ended(40_000, 30_000);
  expect(pace.dueMs()).toBe(40_000 + REST * 30_000);
});
