// SPDX-License-Identifier: Apache-2.0
// A problem is one line when it comes and one when it goes, however often it is looked at.
import { expect, test } from 'vitest';
import { createProblemLog } from '../../../src/runtime/problem-log.ts';
import type { Problem } from '../../../src/runtime/status.ts';

const NOWHERE = { object: undefined, field: undefined, file: undefined, line: undefined };

function logged(...looks: readonly (readonly Problem[])[]): string[] {
  const lines: string[] = [];
  const take = (level: string) => (first: object | string, text?: string) => {
    const fields = typeof first === 'string' ? {} : first;
    const { reason, problem, kinds } = fields as Record<string, unknown>;
    const words = [level, text ?? first, kinds, reason ?? problem];
    lines.push(words.filter((word) => word !== undefined).join(' | '));
  };
  const note = createProblemLog({ info: take('info'), warn: take('warn') });
  for (const problems of looks) note(problems);
  return lines;
}

test('an object that is refused: said once, and once that it was mended', () => {
  const bad = { ...NOWHERE, object: 'Service a/b', field: 'spec', reason: 'no' };
  const other = { ...bad, field: 'spec.ports' };
  expect(logged([bad], [bad], [bad, other], [other], [])).toEqual([
    'warn | input refused | no',
    'warn | input refused | no',
    'info | refused input was mended | Service a/b: spec: no',
    'info | refused input was mended | Service a/b: spec.ports: no',
  ]);
});

test('a source that cannot be followed: each reason once, and one line when all is over', () => {
  const down = { ...NOWHERE, reason: 'refused', kinds: 'all' };
  const late = { ...NOWHERE, reason: 'timed out', kinds: 'Node' };
  const fewer = { ...down, kinds: 'Service' };
  expect(logged([down], [fewer, late], [late], [down], [], [], [down])).toEqual([
    'warn | source cannot be followed, what is programmed stays | all | refused',
    'warn | source cannot be followed, what is programmed stays | Node | timed out',
    'info | source is followed again',
    'warn | source cannot be followed, what is programmed stays | all | refused',
  ]);
});
