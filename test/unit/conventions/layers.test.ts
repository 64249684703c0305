// SPDX-License-Identifier: Apache-2.0
// The tree as it stands keeps the conventions. A failure prints file, line and the reason of the rule.
import { expect, test } from 'vitest';
import { checkFolders } from './folders.ts';
import { checkCycles, checkLayers } from './layers.ts';
import { RULES } from './rules.ts';
import { readTree, type Violation } from './source-file.ts';

const tree = readTree(new URL('../../..', import.meta.url).pathname);
const product = tree.filter(({ path }) => /^(src|tools)\//.test(path));

const text = (violations: readonly Violation[]): string =>
  violations.map(({ path, line, reason }) => `${path}:${line}: ${reason}`).join('\n');

test('there is a tree to look at', () => {
  expect(product.length).toBeGreaterThan(10);
});

test('each layer imports only layers below', () => {
  expect(text(checkLayers(tree))).toBe('');
});

test('no imports in cycles', () => {
  expect(text(checkCycles(product))).toBe('');
});

test('no folder is crowded', () => {
  expect(text(checkFolders(tree))).toBe('');
});

for (const rule of RULES) {
  test(rule.name, () => {
    expect(text(tree.flatMap((file) => rule.check(file)))).toBe('');
  });
}
