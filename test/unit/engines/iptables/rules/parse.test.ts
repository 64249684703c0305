// SPDX-License-Identifier: Apache-2.0
// What iptables-save prints, as rules. The texts are what iptables-nft-save and iptables-legacy-save 1.8.9 print.
import { describe, expect, it } from 'vitest';
import { parseTables } from '../../../../../src/engines/iptables/rules/parse.ts';
import type { Rule } from '../../../../../src/engines/iptables/rules/types.ts';

const NONE = '255.255.255.255';

/** The rule of a chain that has no other. */
function ruleOf(text: string): Rule {
  const parsed = parseTables(`*nat\n:KUBE-TEST - [0:0]\n-A KUBE-TEST ${text}\nCOMMIT\n`);
  if (!parsed.ok) throw new Error(parsed.reason);
  const [rule] = parsed.tables[0]?.chains[0]?.rules ?? [];
  if (rule === undefined) throw new Error('no rule');
  return rule;
}

const KNOWN: Readonly<Record<string, Rule>> = {
  '-s 10.1.1.5/32 -j KUBE-MARK-MASQ': {
    source: { prefix: '10.1.1.5/32' },
    target: { kind: 'jump', chain: 'KUBE-MARK-MASQ' },
  },
  '! -s 127.0.0.0/8 ! -d fd00::/8 -j DROP': {
    source: { prefix: '127.0.0.0/8', not: true },
    destination: { prefix: 'fd00::/8', not: true },
    target: { kind: 'jump', chain: 'DROP' },
  },
  '-i veth+ -j ACCEPT': {
    inInterface: { name: 'veth+' },
    target: { kind: 'jump', chain: 'ACCEPT' },
  },
  '! -i lo -j ACCEPT': {
    inInterface: { name: 'lo', not: true },
    target: { kind: 'jump', chain: 'ACCEPT' },
  },
  '-d 10.96.0.10/32 -p tcp -m comment --comment "default/web:http has no endpoints" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable':
    {
      destination: { prefix: '10.96.0.10/32' },
      protocol: 'TCP',
      comment: 'default/web:http has no endpoints',
      destinationPort: 80,
      target: { kind: 'reject' },
    },
  '-p udp -m comment --comment one -m udp --dport 53 -j REJECT --reject-with icmp6-port-unreachable':
    {
      protocol: 'UDP',
      comment: 'one',
      destinationPort: 53,
      target: { kind: 'reject' },
    },
  '-p sctp -m sctp -j DNAT --to-destination [fd00::5]:8080': {
    protocol: 'SCTP',
    target: { kind: 'dnat', to: '[fd00::5]:8080' },
  },
  '-p 132 -j DNAT --to-destination 10.1.1.5:8080': {
    protocol: 'SCTP',
    target: { kind: 'dnat', to: '10.1.1.5:8080' },
  },
  '-m comment --comment "with \\"quote\\" and \\\\ back \\\'single"': {
    comment: 'with "quote" and \\ back \'single',
  },
  '-m comment --comment ""': { comment: '' },
  '-m comment --comment -j -j RETURN': {
    comment: '-j',
    target: { kind: 'jump', chain: 'RETURN' },
  },
  '-m comment --comment --comment -j RETURN': {
    comment: '--comment',
    target: { kind: 'jump', chain: 'RETURN' },
  },
  '-m comment --comment "a -j b" -m conntrack --ctstate INVALID,NEW,DNAT': {
    comment: 'a -j b',
    states: { any: ['INVALID', 'NEW', 'DNAT'] },
  },
  '-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP': {
    states: { any: ['RELATED', 'ESTABLISHED', 'DNAT'], not: true },
    target: { kind: 'jump', chain: 'DROP' },
  },
  '-m addrtype --dst-type LOCAL': { isDestinationLocal: true },
  '-m addrtype --src-type LOCAL -m addrtype --dst-type LOCAL': {
    isSourceLocal: true,
    isDestinationLocal: true,
  },
  '-m addrtype --src-type LOCAL --dst-type LOCAL': {
    isSourceLocal: true,
    isDestinationLocal: true,
  },
  '-m mark ! --mark 0x4000/0x4000 -j RETURN': {
    mark: { value: 0x4000, mask: 0x4000, not: true },
    target: { kind: 'jump', chain: 'RETURN' },
  },
  '-m mark --mark 0x1': { mark: { value: 1, mask: 0xffffffff } },
  '-j MARK --set-xmark 0x4000/0x0': { target: { kind: 'set-mark', value: 0x4000, mask: 0 } },
  '-j MASQUERADE': { target: { kind: 'masquerade', isRandomFully: false } },
  '-j MASQUERADE --random-fully': { target: { kind: 'masquerade', isRandomFully: true } },
  '-m statistic --mode random --probability 0.33333333349 -j KUBE-SEP-A': {
    probability: 0.33333333349,
    target: { kind: 'jump', chain: 'KUBE-SEP-A' },
  },
  [`-m recent --rcheck --seconds 10800 --reap --name KUBE-SEP-A --mask ${NONE} --rsource`]: {
    recent: { list: 'KUBE-SEP-A', action: { kind: 'check', seconds: 10800 } },
  },
  '-m recent --set --name KUBE-SEP-A --mask ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff --rsource': {
    recent: { list: 'KUBE-SEP-A', action: { kind: 'set' } },
  },
  '-m nfacct --nfacct-name ct_state_invalid_dropped_pkts': {
    accounting: 'ct_state_invalid_dropped_pkts',
  },
};

/** What types.ts has no field for, beside what it has one for. */
const FOREIGN: Readonly<Record<string, Rule>> = {
  '-s 10.0.0.0/8 -i veth+ ! -o lo -p ipv6 -j ACCEPT': {
    source: { prefix: '10.0.0.0/8' },
    inInterface: { name: 'veth+' },
    other: '! -o lo -p ipv6',
    target: { kind: 'jump', chain: 'ACCEPT' },
  },
  '! -p tcp -m limit --limit 5/min -j LOG --log-prefix "hi there \\"x\\"" --log-level 7': {
    other: '! -p tcp -m limit --limit 5/min -j LOG --log-prefix "hi there \\"x\\"" --log-level 7',
  },
  '-f -j DROP': { other: '-f', target: { kind: 'jump', chain: 'DROP' } },
  '-p tcp -m tcp --sport 10:20 --dport 5:6 --tcp-flags FIN,SYN,RST,ACK SYN -g KUBE-SERVICES': {
    protocol: 'TCP',
    other: '-m tcp --sport 10:20 --dport 5:6 --tcp-flags FIN,SYN,RST,ACK SYN -g KUBE-SERVICES',
  },
  '-p tcp -m tcp ! --dport 1': { protocol: 'TCP', other: '-m tcp ! --dport 1' },
  '-p icmp -m icmp --icmp-type 8': { other: '-p icmp -m icmp --icmp-type 8' },
  '-s 10.0.0.0/255.0.255.0': { other: '-s 10.0.0.0/255.0.255.0' },
  '-d ::ffff:1.2.3.4/128': { other: '-d ::ffff:1.2.3.4/128' },
  '-m comment --comment a -m comment --comment b': {
    comment: 'a',
    other: '-m comment --comment b',
  },
  '-m mark --mark 0x1 -m mark --mark 0x2': {
    mark: { value: 1, mask: 0xffffffff },
    other: '-m mark --mark 0x2',
  },
  '-m addrtype ! --src-type LOCAL': { other: '-m addrtype ! --src-type LOCAL' },
  '-m addrtype --dst-type BROADCAST': { other: '-m addrtype --dst-type BROADCAST' },
  '-m conntrack --ctstate NEW,UNTRACKED,SNAT': {
    other: '-m conntrack --ctstate NEW,UNTRACKED,SNAT',
  },
  '-m statistic --mode nth --every 3 --packet 0': {
    other: '-m statistic --mode nth --every 3 --packet 0',
  },
  '-m statistic --mode random ! --probability 0.50000000000': {
    other: '-m statistic --mode random ! --probability 0.50000000000',
  },
  [`-m recent --rcheck --seconds 10 --reap --hitcount 3 --name X --mask ${NONE} --rdest`]: {
    other: `-m recent --rcheck --seconds 10 --reap --hitcount 3 --name X --mask ${NONE} --rdest`,
  },
  '-p tcp -j DNAT --to-destination 10.1.1.5:8080-8090 --random': {
    protocol: 'TCP',
    other: '-j DNAT --to-destination 10.1.1.5:8080-8090 --random',
  },
  '-j MASQUERADE --to-ports 1024-65535': { other: '-j MASQUERADE --to-ports 1024-65535' },
  '-j REJECT --reject-with tcp-reset': { other: '-j REJECT --reject-with tcp-reset' },
  '-p constructor': { other: '-p constructor' },
};

describe('rules of iptables-save', () => {
  it.each(Object.entries({ ...KNOWN, ...FOREIGN }))('%s', (text, rule) => {
    expect(ruleOf(text)).toEqual(rule);
    expect(ruleOf(`${text}  `)).toEqual(rule);
  });

  it('are the same with counters', () => {
    const text = '*nat\n:A - [0:0]\n[12:840] -A A -j RETURN\n[0:0] -A INPUT -j A\nCOMMIT\n';
    expect(parseTables(text)).toEqual(parseTables(text.replaceAll(/^\[\d+:\d+\] /gm, '')));
  });
});

const NFT = `# Generated by iptables-nft-save v1.8.9 (nf_tables) on Sun Nov 22 14:11:41 2026
*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [12:3]
:KUBE-FORWARD - [0:0]
:KUBE-SERVICES - [0:0]
[1:84] -A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
[0:0] -A FORWARD -j KUBE-FORWARD
[0:0] -A KUBE-FORWARD -j ACCEPT
COMMIT
# Completed on Sun Nov 22 14:11:41 2026
# Warning: iptables-legacy tables present, use iptables-legacy-save to see them
*raw
COMMIT
`;

describe('tables of iptables-save', () => {
  it('are its chains, and the rules of the built-in ones', () => {
    const accept = { kind: 'jump', chain: 'ACCEPT' };
    const services = {
      states: { any: ['NEW'] },
      comment: 'kubernetes service portals',
      target: { kind: 'jump', chain: 'KUBE-SERVICES' },
    };
    expect(parseTables(NFT)).toEqual({
      ok: true,
      tables: [
        {
          name: 'filter',
          policies: { INPUT: 'ACCEPT', FORWARD: 'DROP' },
          chains: [
            { name: 'KUBE-FORWARD', rules: [{ target: accept }] },
            { name: 'KUBE-SERVICES', rules: [] },
          ],
          jumps: [
            { from: 'INPUT', rule: services },
            { from: 'FORWARD', rule: { target: { kind: 'jump', chain: 'KUBE-FORWARD' } } },
          ],
        },
        { name: 'raw', policies: {}, chains: [], jumps: [] },
      ],
    });
  });

  it('may be none', () => expect(parseTables('')).toEqual({ ok: true, tables: [] }));
});

const MALFORMED: Readonly<Record<string, readonly [text: string, line: number, reason: string]>> = {
  'text that was cut off': ['*nat\n:A - [0:0]\n-A A -j RET', 3, 'the text was cut off'],
  'a table in a table': ['*nat\n*filter\nCOMMIT', 2, 'table nat has no COMMIT before *filter'],
  'a table that comes twice': ['*nat\nCOMMIT\n*nat\nCOMMIT', 3, 'table nat comes twice'],
  'a table without a name': ['*\nCOMMIT', 1, 'names no table'],
  'a rule in no table': ['-A INPUT -j ACCEPT', 1, 'is in no table'],
  'an error message instead': ['iptables-save: Permission denied', 1, 'is in no table'],
  'another command': ['*nat\n-D INPUT -j ACCEPT\nCOMMIT', 2, '-D is no command'],
  'a chain that is not declared': ['*nat\n-A A -j B\nCOMMIT', 2, 'has not declared that chain'],
  'no chain': ['*nat\n-A\nCOMMIT', 2, 'names no chain'],
  'a chain that comes twice': ['*nat\n:A - [0:0]\n:A - [0:0]\nCOMMIT', 3, 'comes twice'],
  'a declaration without a policy': ['*nat\n:A\nCOMMIT', 2, 'declares no chain'],
  'a built-in chain without a policy': ['*nat\n:INPUT - [0:0]\nCOMMIT', 2, 'must have a policy'],
  'a chain with a policy': ['*nat\n:A DROP [0:0]\nCOMMIT', 2, 'only built-in chains have one'],
  'a quote that is not closed': ['*nat\n-A INPUT -m comment --comment "a b', 2, 'is not closed'],
  'text at a quote': ['*nat\n-A INPUT -m comment --comment "a"b', 2, 'must be a blank'],
  'an option without a value': ['*nat\n-A INPUT -j\nCOMMIT', 2, '-j has no value'],
  'a value without an option': ['*nat\n-A INPUT ACCEPT\nCOMMIT', 2, 'belongs to no option'],
  'a negation of nothing': ['*nat\n-A INPUT -j ACCEPT !\nCOMMIT', 2, 'stands before nothing'],
};

describe('malformed text', () => {
  it.each(Object.entries(MALFORMED))('%s', (_, [text, line, reason]) => {
    expect(parseTables(text)).toEqual({ ok: false, line, reason: expect.stringContaining(reason) });
  });
});
