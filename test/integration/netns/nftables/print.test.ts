// SPDX-License-Identifier: Apache-2.0
// nft accepts the table of every state of every story, and each difference between two of them, and prints what was written
// letter by letter: that is what comparing texts relies on. What differences make is what a table written as a whole is.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { diffTable } from '../../../../src/engines/nftables/state/diff.ts';
import { scriptOf } from '../../../../src/engines/nftables/state/script.ts';
import { allWanted } from '../../../../src/engines/nftables/state/wanted.ts';
import { FAMILIES, type Family } from '../../../../src/model/types.ts';
import { STORIES } from '../../../conformance/conformance.ts';
import { readStories, type Story } from '../../../conformance/story.ts';
import { drawn, storyOf } from '../../../support/fixture/histories.ts';
import { readBack } from '../../../support/nftables/read-back.ts';
import { transactionsOf } from '../../../support/nftables/transactions.ts';
import { SEED } from '../../../support/random.ts';

async function expectReadBack(family: Family, stories: readonly Story[]): Promise<void> {
  const sequences = stories.map((story) => transactionsOf(story, family));
  const found = await readBack(
    family,
    sequences.map((one) => one.map(({ script }) => script)),
  );
  for (const [at, sequence] of sequences.entries()) {
    for (const [index, { script, held, ruleset }] of sequence.entries()) {
      const result = found[at]?.[index];
      expect(result?.complaint, script).toBe('');
      expect(result?.held, script).toEqual(held);
      expect(scriptOf(diffTable(held, allWanted(ruleset), true), family, true)).toBe('');
    }
  }
}

test.each(FAMILIES)('the table of every story: %s', async (family) => {
  const stories = STORIES.flatMap((file) => readStories(file));
  expect(stories.length).toBeGreaterThan(20);
  await expectReadBack(family, stories);
});

test.each(FAMILIES)('random Services: %s', async (family) => {
  const drawings = fc.sample(drawn, { numRuns: 60, seed: SEED });
  await expectReadBack(family, drawings.map(storyOf));
});
