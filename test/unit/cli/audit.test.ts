// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import { auditText, driftOf } from '../../../src/cli/commands/audit.ts';
import type { Entry } from '../../../src/engines/entry.ts';

const serviceNameEntry = (text: string): Entry => ({
  id: { kind: 'service-port', port: 'default/web:http' },
  text,
});

test('drift comes as entries; an agent without a plan reports none', () => {
  expect(driftOf({ drift: [] })).toEqual([]);
  const entry = serviceNameEntry('name of service id 7 (default/web:http) is missing');
  expect(driftOf({ drift: [entry] })).toEqual([entry.text]);
  for (const early of [{}, { error: 'no such path' }, undefined, { drift: undefined }]) {
    expect(driftOf(early)).toBeUndefined();
  }
});

test('table output', () => {
  expect(auditText([])).toMatch(/^in sync/);
  expect(auditText(['a', 'b'])).toBe('drift: a\ndrift: b\n2 differences, repaired');
});
