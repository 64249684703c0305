// SPDX-License-Identifier: Apache-2.0
// The rules of every story, as files to review. base.txt has all rules of a cluster without Services; the file of a
// story has, for each of its states, only the lines that differ from those.
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { render } from '../../../../../src/dataplane/iptables/render/render.ts';
import type { Ruleset } from '../../../../../src/dataplane/iptables/rules/types.ts';
import type { Family } from '../../../../../src/model/types.ts';
import { createPlanner } from '../../../../../src/plan/planner.ts';
import { CLUSTER, fixture, type Story } from '../../../../conformance/story.ts';
import { printRuleset } from '../../../../support/iptables/print-ruleset.ts';
import { DEFAULTS, storyRulesets } from '../../../../support/iptables/story-rulesets.ts';

const golden = (name: string): string => join(import.meta.dirname, '..', 'goldens', `${name}.txt`);

/** `70-a-nodeport-takes-clients-from-outside`. */
const fileName = ({ case: number, name }: Story): string =>
  `${number}-${name.slice(`${number}: `.length)}`
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/-$/, '');

const cluster = createPlanner(fixture.settings);
cluster.apply(CLUSTER.changes);

const BASE = Object.fromEntries(
  render(cluster.current(), DEFAULTS).map((ruleset) => [ruleset.family, printRuleset(ruleset)]),
) as Readonly<Record<Family, string>>;

it('is complete without any Service', async () => {
  const text = Object.entries(BASE).map(([family, rules]) => `# ${family}\n${rules}`);
  await expect(text.join('\n')).toMatchFileSnapshot(golden('base'));
});

for (const { file, story, states } of storyRulesets()) {
  it(`${file} ${story.name}`, async () => {
    const texts = states.slice(1).map(({ rulesets }, index) => stepText(index + 1, rulesets));
    const text = [`# ${story.name}`, ...texts].join('\n');
    const folder = file.replace('.yaml', '');
    await expect(`${text}\n`).toMatchFileSnapshot(golden(join(folder, fileName(story))));
  });
}

const stepText = (step: number, rulesets: readonly Ruleset[]): string =>
  [`# step ${step}`, ...rulesets.flatMap(familyLines)].join('\n');

function familyLines(ruleset: Ruleset): readonly string[] {
  const lines = differences(printRuleset(ruleset).split('\n'), BASE[ruleset.family].split('\n'));
  return lines.length === 0 ? [] : [`## ${ruleset.family}`, ...lines];
}

/** Lines that the base does not have, below the name of their table; first those that only the base has, with `-`. */
function differences(lines: readonly string[], base: readonly string[]): readonly string[] {
  const removed = base.filter((line) => !lines.includes(line)).map((line) => `- ${line}`);
  const kept = lines.filter((line) => line.startsWith('*') || !base.includes(line));
  const added = kept.filter((line, index) => !line.startsWith('*') || isFilled(kept[index + 1]));
  return [...removed, ...added];
}

const isFilled = (next: string | undefined): boolean => next !== undefined && !next.startsWith('*');
