// SPDX-License-Identifier: Apache-2.0
// Rules of some stories, as files to review: what each kind of frontend, policy and setting looks like. What the rules of
// all stories do is the interpreter's to say (laws/interpreter.test.ts, conformance). base.txt has all rules of a
// cluster without Services; the file of a story has, for each of its states, only the lines that differ from those.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { render } from '../../../../../src/engines/iptables/rows/render.ts';
import type { Ruleset } from '../../../../../src/engines/iptables/rules/types.ts';
import type { Family } from '../../../../../src/model/types.ts';
import { CLUSTER, fixture } from '../../../../conformance/story.ts';
import { goldenName, REVIEWED } from '../../../../support/fixture/stories/reviewed.ts';
import { printRuleset } from '../../../../support/iptables/print-ruleset.ts';
import { DEFAULTS, storyRulesets } from '../../../../support/iptables/story-rulesets.ts';
import { createPlanner } from '../../../../support/plan/planner.ts';

const GOLDENS = join(import.meta.dirname, '..', 'goldens');
const golden = (name: string): string => join(GOLDENS, `${name}.txt`);

const cluster = createPlanner(fixture.settings);
cluster.apply(CLUSTER.changes);

const BASE = Object.fromEntries(
  render(cluster.current(), DEFAULTS).map((ruleset) => [ruleset.family, printRuleset(ruleset)]),
) as Readonly<Record<Family, string>>;

it('is complete without any Service', async () => {
  const text = Object.entries(BASE).map(([family, rules]) => `# ${family}\n${rules}`);
  await expect(text.join('\n')).toMatchFileSnapshot(golden('base'));
});

const stories = new Map(
  storyRulesets().map((found) => [goldenName(found.file, found.story), found]),
);

it.each(REVIEWED)('%s', async (name) => {
  const { story, states } = stories.get(name)!;
  const texts = states.slice(1).map(({ rulesets }, index) => stepText(index + 1, rulesets));
  const text = [`# ${story.name}`, ...texts].join('\n');
  await expect(`${text}\n`).toMatchFileSnapshot(golden(name));
});

it('no other file is left', () => {
  const files = readdirSync(GOLDENS, { recursive: true, encoding: 'utf8' });
  const names = files.filter((file) => file.endsWith('.txt')).map((file) => file.slice(0, -4));
  expect(names.sort()).toEqual(['base', ...REVIEWED].sort());
});

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
