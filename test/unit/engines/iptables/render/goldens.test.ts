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
import { createPlanner } from '../../../../../src/plan/planner.ts';
import { CLUSTER, fixture, type Story } from '../../../../conformance/story.ts';
import { printRuleset } from '../../../../support/iptables/print-ruleset.ts';
import { DEFAULTS, storyRulesets } from '../../../../support/iptables/story-rulesets.ts';

const GOLDENS = join(import.meta.dirname, '..', 'goldens');
const golden = (name: string): string => join(GOLDENS, `${name}.txt`);

const REVIEWED: readonly string[] = [
  'balancing/default-forwarding-a-service-without-forwarding-has-that-of-the-configuration',
  'balancing/weights-backends-have-shares-in-proportion-to-their-weights',
  'clusterip/1-a-pod-reaches-every-endpoint-and-keeps-its-address',
  'clusterip/16-sctp-is-served-like-the-other-protocols',
  'clusterip/detector-interface-in-interface-modes-the-interface-decides-and-a-process-of-the-host-has-none',
  'clusterip/masquerade-all-masqueradeall-masquerades-pods-too-on-the-way-to-a-clusterip',
  'endpoints/57-without-endpoints-a-nodeport-refuses',
  'endpoints/58-without-endpoints-balancer-and-external-addresses-refuse',
  'exposure/deny-node-a-node-that-is-denied-is-denied-from-the-balancer-address-too',
  'exposure/ranges-annotation-a-service-of-any-type-has-source-ranges-by-annotation-at-all-its-external-frontends',
  'policies/102-source-ranges-hold-for-everyone',
  'policies/120-affinity-carries-its-timeout-to-every-frontend-of-the-port',
  'policies/151-a-dual-stack-service-works-in-both-families',
  'policies/63-internal-policy-local-stays-on-the-node-and-keeps-the-address',
  'policies/64-internal-policy-local-without-an-endpoint-here-is-silent',
  'policies/70-a-nodeport-takes-clients-from-outside-masqueraded',
  'policies/84-external-policy-local-without-an-endpoint-here-is-silent',
  'policies/96-an-external-address-is-compared-in-canonical-form',
  'policies/mixed-policies-internal-policy-local-does-not-touch-external-addresses-nor-the-other-way-round',
  'policies/node-port-keywords-keywords-and-prefixes-add-up-and-ipv6-loopback-never-answers',
];

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

const stories = new Map(
  storyRulesets().map((found) => [
    join(found.file.replace('.yaml', ''), fileName(found.story)),
    found,
  ]),
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
