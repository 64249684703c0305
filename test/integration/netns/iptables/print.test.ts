// SPDX-License-Identifier: Apache-2.0
// iptables-restore accepts the rules of every state of every story, and iptables-save prints them back letter by letter:
// that is what comparing the text of chains relies on. With both kinds of iptables, in both families.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Rule, Ruleset } from '../../../../src/engines/iptables/rules/types.ts';
import type { Family } from '../../../../src/model/types.ts';
import { drawn, storyOf } from '../../../support/fixture/histories.ts';
import { printRuleset } from '../../../support/iptables/print-ruleset.ts';
import { isAvailable, readBack, VARIANTS } from '../../../support/iptables/read-back.ts';
import { chainsOf, type SavedChains } from '../../../support/iptables/saved.ts';
import { statesOf, storyRulesets } from '../../../support/iptables/story-rulesets.ts';
import { SEED } from '../../../support/random.ts';

const available = await Promise.all(VARIANTS.map(isAvailable));

const WAYS = VARIANTS.filter((_, index) => available[index]).flatMap((variant) =>
  (['IPv4', 'IPv6'] as const).map((family) => ({ variant, family })),
);

/** Without the built-in chains that have no rules: iptables-save declares them all. */
const sorted = (chains: SavedChains) =>
  Object.fromEntries(
    [...chains]
      .filter(([name, rules]) => rules.length > 0 || name.includes(' KUBE-'))
      .toSorted(([a], [b]) => (a < b ? -1 : 1)),
  );

async function expectReadBack(
  { variant, family }: (typeof WAYS)[number],
  texts: readonly string[],
): Promise<void> {
  const results = await readBack(variant, family, texts);
  for (const [index, { complaint, saved }] of results.entries()) {
    const text = texts[index] ?? '';
    expect(complaint, text).toBe('');
    expect(sorted(chainsOf(saved))).toEqual(sorted(chainsOf(text)));
  }
}

const distinctTexts = (rulesets: readonly Ruleset[], family: Family): readonly string[] => [
  ...new Set(rulesets.filter((one) => one.family === family).map(printRuleset)),
];

const textsOf = (family: Family): readonly string[] =>
  distinctTexts(
    storyRulesets().flatMap(({ states }) => states.flatMap((one) => one.rulesets)),
    family,
  );

test.each(WAYS)('the rules of every story: $variant, $family', async (way) => {
  const texts = textsOf(way.family);
  expect(texts.length).toBeGreaterThan(5);
  await expectReadBack(way, texts);
});

test.each(WAYS)('random Services: $variant, $family', async (way) => {
  const drawings = fc.sample(drawn, { numRuns: 60, seed: SEED });
  const rulesets = drawings.flatMap((state) => statesOf(storyOf(state)).at(-1)!.rulesets);
  await expectReadBack(way, distinctTexts(rulesets, way.family));
});

/** Everything a rule can have, in several values. */
const rulesOf = (family: Family): readonly Rule[] => {
  const [wide, one, other] =
    family === 'IPv4'
      ? ['0.0.0.0/0', '10.1.2.0/23', '10.9.0.1/32']
      : ['::/0', '2001:db8::/47', 'fd00::1/128'];
  const jump = { kind: 'jump', chain: 'KUBE-MARK-MASQ' } as const;
  const chances = Array.from({ length: 60 }, (_, index) => index + 2);
  return [
    { source: { prefix: wide }, destination: { prefix: other }, target: jump },
    { source: { prefix: one, not: true }, destination: { prefix: other, not: true }, target: jump },
    { inInterface: { name: 'cbr0' }, target: jump },
    { inInterface: { name: 'veth+', not: true }, comment: 'word', target: jump },
    ...[
      "it's",
      'a "quoted" word',
      'a\\b',
      'a-b_c',
      'a.b',
      ' ',
      'x'.repeat(255),
      'y'.repeat(300),
    ].map((comment) => ({ comment, target: jump })),
    ...(['TCP', 'UDP', 'SCTP'] as const).flatMap((protocol) => [
      { protocol, comment: 'a b', target: jump },
      { protocol, destinationPort: 65_535, target: jump },
    ]),
    { isSourceLocal: true, isDestinationLocal: true, target: jump },
    ...[0, 14, 31].map((bit) => ({ mark: { value: 2 ** bit, mask: 2 ** bit }, target: jump })),
    { mark: { value: 0x4000, mask: 0xf000, not: true }, target: jump },
    { states: { any: ['NEW', 'DNAT'], not: true }, protocol: 'UDP', comment: 'c d', target: jump },
    ...chances.map((left) => ({ probability: 1 / left, target: jump })),
    { recent: { list: 'KUBE-SEP-A', action: { kind: 'check', seconds: 86_400 } }, target: jump },
    { recent: { list: 'KUBE-SEP-A', action: { kind: 'set' } }, protocol: 'SCTP', target: jump },
    { comment: 'without a target' },
    {},
  ];
};

const everyRule = (family: Family): Ruleset => ({
  family,
  tables: [
    {
      name: 'filter',
      chains: [{ name: 'KUBE-TEST', rules: [{ target: { kind: 'reject' } }] }],
      jumps: [{ from: 'INPUT', rule: { target: { kind: 'jump', chain: 'KUBE-TEST' } } }],
    },
    {
      name: 'nat',
      chains: [
        {
          name: 'KUBE-MARK-MASQ',
          rules: [0, 14, 31].flatMap((bit): readonly Rule[] => [
            { target: { kind: 'set-mark', value: 2 ** bit, mask: 2 ** bit } },
            { target: { kind: 'set-mark', value: 2 ** bit, mask: 0 } },
          ]),
        },
        { name: 'KUBE-TEST', rules: rulesOf(family) },
        {
          name: 'KUBE-POSTROUTING',
          rules: [true, false].map((isRandomFully) => ({
            target: { kind: 'masquerade', isRandomFully },
          })),
        },
      ],
      jumps: [
        { from: 'POSTROUTING', rule: { target: { kind: 'jump', chain: 'KUBE-POSTROUTING' } } },
      ],
    },
  ],
});

test.each(WAYS)('everything a rule can say: $variant, $family', (way) =>
  expectReadBack(way, [printRuleset(everyRule(way.family))]),
);
