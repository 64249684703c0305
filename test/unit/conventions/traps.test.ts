// SPDX-License-Identifier: Apache-2.0
// test/traps.yaml names tests that exist.
import { readFileSync } from 'node:fs';
import { load } from 'js-yaml';
import { expect, test } from 'vitest';

interface Trap {
  readonly trap: string;
  readonly tests?: readonly { readonly file: string; readonly words: string }[];
  readonly why?: string;
}

const read = (path: string): string =>
  readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');
const traps = load(read('test/traps.yaml')) as readonly Trap[];

test('there are twenty', () => {
  expect(new Set(traps.map(({ trap }) => trap)).size).toBe(20);
});

test.each(traps)('$trap', ({ tests = [], why }) => {
  expect(tests.length > 0, 'tests, or a reason why there are none').toBe(why === undefined);
  for (const { file, words } of tests) expect(read(file), file).toContain(words);
});
