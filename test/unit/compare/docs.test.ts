// SPDX-License-Identifier: Apache-2.0
// docs/operate.md has the reasons that are no difference from kube-proxy; test/unit/fixture holds the table of the others.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { ANNOTATION, FOREIGN_RULE } from '../../../src/compare/known.ts';

test('the documents have every other reason', () => {
  const page = readFileSync(new URL('../../../docs/operate.md', import.meta.url), 'utf8');
  for (const reason of [ANNOTATION, FOREIGN_RULE]) expect(page).toContain(`\`${reason}\``);
});
