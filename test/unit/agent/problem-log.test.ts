// SPDX-License-Identifier: Apache-2.0
// A problem is logged once when it appears and once when it clears, however often it is checked.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createProblemLog } from '../../../src/agent/problem-log.ts';
import type { Problem } from '../../../src/model/problem.ts';

const NOWHERE = { object: undefined, field: undefined, file: undefined, line: undefined };

function openLog() {
  const lines: string[] = [];
  const take = (level: string) => (first: object | string, text?: string) => {
    const fields = typeof first === 'string' ? {} : first;
    const { reason, problem, kinds } = fields as Record<string, unknown>;
    const words = [level, text ?? first, kinds, reason ?? problem];
    lines.push(words.filter((word) => word !== undefined).join(' | '));
  };
  return { lines, note: createProblemLog({ info: take('info'), warn: take('warn') }) };
}

function logged(...looks: readonly (readonly Problem[])[]): string[] {
  const { lines, note } = openLog();
  for (const problems of looks) note(problems);
  return lines;
}

test('a rejected object is logged once, and once when it is valid again', () => {
  const bad = {
    ...NOWHERE,
    object: { kind: 'Service', namespace: 'a', name: 'b' } as const,
    field: 'spec',
    reason: 'no',
  };
  const other = { ...bad, field: 'spec.ports' };
  expect(logged([bad], [bad], [bad, other], [other], [])).toEqual([
    'warn | input rejected | no',
    'warn | input rejected | no',
    'info | rejected input is valid again | Service a/b: spec: no',
    'info | rejected input is valid again | Service a/b: spec.ports: no',
  ]);
});

describe('a source that cannot be watched', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());
  const down = { ...NOWHERE, reason: 'refused', kinds: 'all' };
  const late = { ...NOWHERE, reason: 'timed out', kinds: 'Node' };
  const LINE = 'cannot watch the API server; keeping the last state';

  test('is one line, and one more on recovery, whatever the reasons were meanwhile', () => {
    const fewer = { ...down, kinds: 'Service' };
    expect(logged([down], [fewer, late], [late], [], [], [down])).toEqual([
      `warn | ${LINE} | all | refused`,
      'info | watching the API server again',
      `warn | ${LINE} | all | refused`,
    ]);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('is logged again, once, when the reason changes and persists', () => {
    const { lines, note } = openLog();
    note([down]);
    note([down, late]);
    vi.advanceTimersByTime(59_000);
    expect(lines).toEqual([`warn | ${LINE} | all | refused`]);
    note([late]);
    vi.advanceTimersByTime(1_000);
    note([down, late]);
    vi.advanceTimersByTime(120_000);
    expect(lines.slice(1)).toEqual([`warn | ${LINE} | Node | timed out`]);
  });
});
