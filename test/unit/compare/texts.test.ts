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

const LATER = ['\t\tlog prefix "a b" level info', '\t\tmeta l4proto { 1, 58 } drop'];
const ICMP = [
  '\t\ticmp type { 3, 8 } drop',
  '\t\ticmpv6 type != 128 drop',
  '\t\tip protocol 1 drop',
];

test.each([...LATER, ...ICMP])('harms nobody, and is not told:%s', (rule) => {
  const text = nftTable(rule, DROP);
  expect(unreadOf(text)).toEqual([]);
  expect(differencesOf(text, nftTable(DROP))).toEqual([]);
});

test('a protocol that is excluded is all that are compared', () => {
  expect(differencesOf(nftTable('\t\tip protocol != 1 drop'), nftTable())).toContain(
    '1.0.0.0:1/TCP: drop | none',
  );
});

test.each([
  '-p icmp -m icmp --icmp-type 8 -j DROP',
  '-m limit --limit 5/min -j LOG --log-prefix "a b" --log-level 4',
  '-m quota --quota 5',
])('of iptables, it harms nobody and is not told: %s', (rule) => {
  const own = '-A KUBE-SERVICES -d 10.96.0.10/32 -j DROP';
  const text = saved(`-A KUBE-SERVICES ${rule}`, own);
  expect(unreadOf(text)).toEqual([]);
  expect(differencesOf(text, saved(own))).toEqual([]);
});

test('a reset refuses, and is no drop', () => {
  const rule = (target: string) => saved(`-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -j ${target}`);
  const reset = rule('REJECT --reject-with tcp-reset');
  expect(unreadOf(reset)).toEqual([]);
  expect(differencesOf(reset, rule('REJECT --reject-with icmp-port-unreachable'))).toEqual([]);
  expect(differencesOf(reset, rule('DROP'))).toContain('10.96.0.10:1/TCP: reject | drop');
});

const withSet = (type: string, flags: string, elements: string, rule: string): string => {
  const lines = [`type ${type}`, `flags ${flags}`, `elements = { ${elements} }`];
  const set = ['\tset s {', ...lines.map((line) => `\t\t${line}`), '\t}'].join('\n');
  return nftTable(`\t\t${rule}`).replace('{\n', `{\n${set}\n`);
};

test('an element that ends by itself counts, and is told', () => {
  const text = withSet(
    'ipv4_addr',
    'timeout',
    '10.96.0.10 timeout 1h expires 9m',
    'ip daddr @s drop',
  );
  expect(unreadOf(text)).toContain('ip kube-proxy s: 10.96.0.10 timeout 1h expires 9m');
  expect(differencesOf(text, nftTable())).toContain('10.96.0.10:1/TCP: drop | none');
});

test('a range in a key of several parts is told', () => {
  const type = 'ipv4_addr . inet_service';
  const text = withSet(type, 'interval', '10.96.0.10 . 80-90', 'ip daddr . tcp dport @s drop');
  expect(unreadOf(text)).toContain('ip kube-proxy s: 10.96.0.10 . 80-90');
});
