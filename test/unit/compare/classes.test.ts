// SPDX-License-Identifier: Apache-2.0
// Small rules that differ for few packets only: each pair has to be found out.
import { expect, test } from 'vitest';
import { differencesOf, nftTable, saved } from './texts.ts';

const DNAT = '-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j KUBE-SEP-A';
const SEP = '-A KUBE-SEP-A -p tcp -m tcp -j DNAT --to-destination 10.1.1.5:8080';

test('rules that are the same have no difference', () => {
  expect(differencesOf(saved(DNAT, SEP), saved(DNAT, SEP))).toEqual([]);
  expect(differencesOf(saved(DNAT, SEP), saved(SEP))).toEqual([
    '10.96.0.10:80/TCP: forward | none',
  ]);
});

test('of two ranges of destinations, what only the greater one has is a class', () => {
  const drop = (prefix: string) => nftTable(`\t\tip daddr ${prefix} drop`);
  const found = differencesOf(drop('10.96.0.0/12'), drop('10.96.0.0/16'));
  expect(found).toContain('10.97.0.0:1/TCP: drop | none');
});

test('an address between single ones of a range is a class', () => {
  const all = nftTable('\t\tip daddr 10.96.0.0/30 drop');
  const each = nftTable('\t\tip daddr { 10.96.0.0, 10.96.0.1, 10.96.0.3 } drop');
  expect(differencesOf(all, each)).toContain('10.96.0.2:1/TCP: drop | none');
});

test('the inside of a range of ports is a class', () => {
  const some = nftTable('\t\tip daddr 10.96.0.10 tcp dport 1000-2000 drop');
  const ends = nftTable(
    '\t\tip daddr 10.96.0.10 tcp dport 1000 drop',
    '\t\tip daddr 10.96.0.10 tcp dport 2000 drop',
  );
  expect(differencesOf(some, ends)).toEqual(['10.96.0.10:1001/TCP: drop | none']);
});

test('what is outside of a range of ports is a class', () => {
  const low = nftTable('\t\tip daddr 10.96.0.10 tcp dport 1-1000 drop');
  const all = nftTable('\t\tip daddr 10.96.0.10 meta l4proto tcp drop');
  expect(differencesOf(low, all)).toEqual(['10.96.0.10:1001/TCP: none | drop']);
});

test('each port of a list is a class', () => {
  const both = nftTable('\t\tip daddr 10.96.0.10 tcp dport { 80, 443 } drop');
  const one = nftTable('\t\tip daddr 10.96.0.10 tcp dport 80 drop');
  expect(differencesOf(both, one)).toEqual(['10.96.0.10:443/TCP: drop | none']);
});

test('a port without a protocol is one of each protocol', () => {
  const any = nftTable('\t\tip daddr 10.96.0.10 th dport 80 drop');
  const tcp = nftTable('\t\tip daddr 10.96.0.10 tcp dport 80 drop');
  expect(differencesOf(any, tcp)).toEqual([
    '10.96.0.10:80/UDP: drop | none',
    '10.96.0.10:80/SCTP: drop | none',
  ]);
});

test('SCTP is a class where only a rule without ports names it', () => {
  const sctp = nftTable('\t\tip daddr 10.96.0.10 meta l4proto sctp drop');
  const none = nftTable('\t\tip daddr 10.96.0.10 meta l4proto sctp accept');
  expect(differencesOf(sctp, none)).toEqual(['10.96.0.10:1/SCTP: drop | none']);
});

test('a device that only the prefix of names has is a class', () => {
  const prefix = nftTable('\t\tip daddr 10.96.0.10 iifname "veth*" drop');
  const exact = nftTable('\t\tip daddr 10.96.0.10 iifname "veth0" drop');
  expect(differencesOf(prefix, exact)).toContain('10.96.0.10:1/TCP: drop | none');
});

test('a set that is asked for clients and for destinations has both classes', () => {
  const set = [
    '\tset some {\n\t\ttype ipv4_addr . inet_proto . inet_service',
    '\t\telements = { 10.9.0.1 . tcp . 80 }\n\t}',
  ].join('\n');
  const rules = ['\t\tip daddr . meta l4proto . th dport @some accept'];
  const drop = '\t\tip saddr . meta l4proto . th dport @some drop';
  const found = differencesOf(
    nftTable(set, ...rules, drop),
    nftTable(set, ...rules, drop.replace('drop', 'accept')),
  );
  expect(found).toContain('192.0.2.11:80/TCP: drop | none');
});

test('shares of packets that are dropped are compared', () => {
  const some = (share: string) =>
    saved(
      `-A KUBE-SERVICES -d 10.96.0.10/32 -m statistic --mode random --probability ${share} -j DROP`,
      DNAT,
      SEP,
    );
  expect(differencesOf(some('0.50000000000'), some('0.10000000009'))).toEqual([
    '10.96.0.10:80/TCP: mixed | mixed',
    expect.any(String),
    expect.any(String),
    expect.any(String),
  ]);
});

test('what the node sends itself comes in by lo', () => {
  const input = (...lines: readonly string[]) =>
    ['*filter', ':INPUT ACCEPT [0:0]', ...lines, 'COMMIT', saved()].join('\n');
  const refuse =
    '-A INPUT -d 192.0.2.11/32 -p tcp -m tcp --dport 30080 -j REJECT --reject-with icmp-port-unreachable';
  const found = differencesOf(input(refuse), input('-A INPUT -i lo -j ACCEPT', refuse));
  expect(found).toEqual(['192.0.2.11:30080/TCP: reject | none']);
});
