// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import { auditText, driftOf } from '../../../src/cli/commands/audit.ts';

test('drift comes as texts or as entries; an agent without a plan reports none', () => {
  expect(driftOf({ drift: [] })).toEqual([]);
  expect(driftOf({ drift: ['a'] })).toEqual(['a']);
  expect(driftOf({ drift: [{ id: '192.0.2.10:80/TCP', text: 'missing' }] })).toEqual([
    '192.0.2.10:80/TCP: missing',
  ]);
  for (const early of [{}, { error: 'no such path' }, undefined, { drift: undefined }]) {
    expect(driftOf(early)).toBeUndefined();
  }
});

test('table output', () => {
  expect(auditText([])).toMatch(/^in sync/);
  expect(auditText(['a', 'b'])).toBe('drift: a\ndrift: b\n2 differences, repaired');
});
