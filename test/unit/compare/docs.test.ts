// SPDX-License-Identifier: Apache-2.0
// docs/operate.md has every known reason, in the words of the command.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { KNOWN } from '../../../src/compare/known.ts';

test('the documents have every known difference', () => {
  const page = readFileSync(new URL('../../../docs/operate.md', import.meta.url), 'utf8');
  const missing = KNOWN.filter(
    ({ name, rules, plan }) => !page.includes(`| \`${name}\` | ${rules} | ${plan} |`),
  );
  expect(missing.map(({ name }) => name)).toEqual([]);
});
