// SPDX-License-Identifier: Apache-2.0
// A mutant whose line was renamed or moved would end the run of all mutants, which takes long and is
// seldom started: so each is looked up here.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

interface Mutant {
  readonly file: string;
  readonly search: string;
  readonly replace: string;
  readonly means: string;
}

const TOP = join(import.meta.dirname, '../../..');
const mutants: readonly Mutant[] = JSON.parse(
  readFileSync(join(TOP, 'test/mutants/mutants.json'), 'utf8'),
);

function count({ file, search }: Mutant): number {
  const path = join(TOP, file);
  return existsSync(path) ? readFileSync(path, 'utf8').split(search).length - 1 : 0;
}

test('what each mutant changes stands exactly once in its file', () => {
  expect(mutants.length).toBeGreaterThan(0);
  const lost = mutants.filter((mutant) => count(mutant) !== 1);
  expect(lost.map(({ file, search }) => `${file}: ${search}`)).toEqual([]);
});

test('each mutant changes something, and says what', () => {
  for (const { search, replace, means } of mutants) {
    expect(replace).not.toBe(search);
    expect(means).not.toBe('');
  }
});
