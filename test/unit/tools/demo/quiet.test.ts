// SPDX-License-Identifier: Apache-2.0
// When a backend that was removed gets no connection any more: by the answers of others, whatever time they take.
import { expect, test } from 'vitest';
import { quietAfter } from '../../../../tools/demo/stage.ts';
import type { LoadReport } from '../../../../tools/lab/client/protocol.ts';

/** Answers so far; those of the removed backend all came long ago. */
const report = (removed: number, others: number): LoadReport => ({
  ...{ startedMs: 0, connections: removed + others, failureCount: 0, failures: [] },
  longestGapMs: 0,
  hits: {
    removed: { count: removed, firstMs: 1, lastMs: 2 },
    one: { count: others, firstMs: 1, lastMs: 10_000 },
  },
});

test('a load that pauses is not a backend that is quiet', () => {
  const isQuiet = quietAfter(['removed'], 100);
  expect([report(50, 90), report(50, 91), report(50, 189)].map(isQuiet)).toEqual([
    false,
    false,
    false,
  ]);
  expect(isQuiet(report(50, 190))).toBe(true);
});

test('each answer of the backend begins the count anew', () => {
  const isQuiet = quietAfter(['removed'], 100);
  expect([report(50, 90), report(51, 189), report(51, 288)].map(isQuiet)).toEqual([
    false,
    false,
    false,
  ]);
  expect(isQuiet(report(51, 289))).toBe(true);
});

test('one that has never answered is quiet as well', () => {
  const isQuiet = quietAfter(['removed'], 100);
  expect([report(0, 0), report(0, 100)].map(isQuiet)).toEqual([false, true]);
});
