// SPDX-License-Identifier: Apache-2.0
// What a text says in other words than kube-proxy's: it counts, or the rule is told as one that is not read.
import { expect, test } from 'vitest';
import { comparisonOf, differencesOf, nftTable, programOf, saved } from './texts.ts';

const DROP = '\t\tip daddr 10.96.0.10 drop';
const unreadOf = (text: string): readonly string[] =>
  comparisonOf(text, text).unread.map(({ text }) => text);

test('a table that sleeps does nothing', () => {
  const text = nftTable(DROP);
  const asleep = text.replace('{\n', '{\n\tflags dormant\n');
  expect(differencesOf(text, asleep)).toContain('10.96.0.10:1/TCP: drop | none');
});

test('the policy of a chain counts', () => {
  const text = nftTable('\t\tip daddr 10.96.0.10 accept');
  const strict = text.replace('policy accept', 'policy drop');
  expect(differencesOf(text, strict)).toContain('1.0.0.0:1/TCP: none | drop');
});

test.each([
  ['dstnat', -100],
  ['dstnat - 10', -110],
  ['filter + 5', 5],
  ['-110', -110],
])('priority %s is %i', (priority, wanted) => {
  const text = nftTable(DROP).replace('priority -110', `priority ${priority}`);
  expect(programOf(text).hooks.prerouting.map((one) => one.priority)).toEqual([wanted]);
});

test.each([
  ...['meta mark @marks drop', 'iifname @devices drop', 'iifname { "a", "b" } drop'],
  ...['tcp dport ssh drop', 'ct state untracked drop', 'ip saddr @gone drop'],
])('is told as not read: %s', (rule) => {
  expect(unreadOf(nftTable(`\t\t${rule}`))).toHaveLength(2);
});

test.each(['NOTRACK', 'REDIRECT', 'KUBE-GONE'])(
  'a jump to what is no chain is told: %s',
  (target) => {
    expect(unreadOf(saved(`-A KUBE-SERVICES -d 10.96.0.10/32 -j ${target}`))).toHaveLength(2);
  },
);
