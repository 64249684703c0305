// SPDX-License-Identifier: Apache-2.0
// What is written for some stories, as files to review: base.txt has the table of a cluster without Services, the file of a
// story the transaction of each of its steps. That nft takes and prints all of them is print.test.ts's to say.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { FAMILIES } from '../../../../../src/model/types.ts';
import { STORIES } from '../../../../conformance/conformance.ts';
import { readStories, type Story } from '../../../../conformance/story.ts';
import { goldenName, REVIEWED } from '../../../../support/fixture/stories/reviewed.ts';
import { transactionsOf } from '../../../../support/nftables/transactions.ts';

const GOLDENS = join(import.meta.dirname, '..', 'goldens');
const golden = (name: string): string => join(GOLDENS, `${name}.txt`);

const stories = new Map(
  STORIES.flatMap((file) =>
    readStories(file).map((story) => [goldenName(file, story), story] as const),
  ),
);

/** By step: what is written in each family that changes. */
function stepsOf(story: Story): readonly string[] {
  const families = FAMILIES.map((family) => [family, transactionsOf(story, family)] as const);
  return story.steps.map((_, step) =>
    families
      .flatMap(([family, written]) => {
        const script = written[step]?.script ?? '';
        return script === '' ? [] : [`## ${family}\n${script}`];
      })
      .join(''),
  );
}

it('is complete without any Service', async () => {
  const [story] = stories.values();
  await expect(stepsOf(story!)[0]).toMatchFileSnapshot(golden('base'));
});

it.each(REVIEWED)('%s', async (name) => {
  const story = stories.get(name)!;
  const texts = stepsOf(story).slice(1);
  const steps = texts.map((text, index) => `# step ${index + 1}\n${text}`);
  await expect(`# ${story.name}\n${steps.join('')}`).toMatchFileSnapshot(golden(name));
});

it('no other file is left', () => {
  const files = readdirSync(GOLDENS, { recursive: true, encoding: 'utf8' });
  const names = files.filter((file) => file.endsWith('.txt')).map((file) => file.slice(0, -4));
  expect(names.sort()).toEqual(['base', ...REVIEWED].sort());
});
