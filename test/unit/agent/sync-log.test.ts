// SPDX-License-Identifier: Apache-2.0
// Log lines about syncs: the first at once, then at most one per second, with complete totals.
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createSyncLog } from '../../../src/agent/sync-log.ts';

let lines: object[];
beforeEach(() => {
  lines = [];
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const open = () =>
  createSyncLog({ info: (fields: object) => void lines.push(fields) } as unknown as Parameters<
    typeof createSyncLog
  >[0]);

test('a change is logged at once, and so is a later one', () => {
  const log = open();
  log.done(1, 2, 0.5);
  vi.advanceTimersByTime(5_000);
  log.done(3, 4, 1);
  expect(lines).toEqual([
    { syncs: 1, services: 1, applied: 2, durationMs: 0.5 },
    { syncs: 1, services: 3, applied: 4, durationMs: 1 },
  ]);
});

test('a hundred changes per second are one line per second, which counts all of them', () => {
  const log = open();
  for (let change = 0; change < 250; change += 1) {
    log.done(1, 1, 0.25);
    vi.advanceTimersByTime(10);
  }
  expect(lines.map((line) => Reflect.get(line, 'syncs'))).toEqual([1, 99, 100]);
  log.close();
  expect(lines.at(-1)).toEqual({ syncs: 50, services: 50, applied: 50, durationMs: 12.5 });
  vi.advanceTimersByTime(10_000);
  expect(lines).toHaveLength(4);
});
