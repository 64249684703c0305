// SPDX-License-Identifier: Apache-2.0
// The house as it stands obeys its rules. A failure prints file, line and the reason of the rule.
import { expect, test } from 'vitest';
import { checkCycles, checkFloors } from './floors.ts';
import { RULES } from './rules.ts';
import { readTree, type Violation } from './source-file.ts';

const tree = readTree(new URL('../../..', import.meta.url).pathname);
const product = tree.filter(({ path }) => path.startsWith('src/'));

const text = (violations: readonly Violation[]): string =>
  violations.map(({ path, line, reason }) => `${path}:${line}: ${reason}`).join('\n');

test('there is a house to look at', () => {
  expect(product.length).toBeGreaterThan(10);
});

test('each floor imports only floors below', () => {
  expect(text(checkFloors(tree))).toBe('');
});

test('no imports in circles', () => {
  expect(text(checkCycles(product))).toBe('');
});

for (const rule of RULES) {
  test(rule.name, () => {
    expect(text(tree.flatMap((file) => rule.check(file)))).toBe('');
  });
}
