// SPDX-License-Identifier: Apache-2.0
// Rules as programs of the field write them, and whether packets that eBPF has translated would meet another verdict.
import { expect, test } from 'vitest';
import {
  findObstacle,
  obstacleText,
  possibleObstacles,
} from '../../../../src/on-node/netfilter/obstacle.ts';
import type { NodeFacts } from '../../../../src/on-node/netfilter/question.ts';

const FACTS: NodeFacts = {
  podRanges: ['10.1.0.0/16'],
  frontends: [
    { address: '192.0.2.11', port: 30_080 },
    { address: '203.0.113.10', port: 443 },
  ],
};

const table = (name: string, lines: readonly string[]): string =>
  [`*${name}`, ...lines, 'COMMIT', ''].join('\n');
const chains = (policy: string, ...own: readonly string[]): readonly string[] => [
  ':INPUT ACCEPT [0:0]',
  `:FORWARD ${policy} [0:0]`,
  ':OUTPUT ACCEPT [0:0]',
  ...own.map((name) => `:${name} - [0:0]`),
];
const found = (text: string, facts = FACTS): string | undefined => {
  const obstacle = findObstacle(
    { saved: [{ program: 'iptables-nft', text }], nft: undefined },
    facts,
  );
  return obstacle && `${obstacle.kind}: ${obstacle.rule}`;
};

const DOCKER = [
  '-A FORWARD -j DOCKER-USER',
  '-A FORWARD -j DOCKER-FORWARD',
  '-A DOCKER-FORWARD -j DOCKER-CT',
  '-A DOCKER-FORWARD -i docker0 -j ACCEPT',
  '-A DOCKER-CT -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
];
const UFW = [
  '-A FORWARD -j ufw-before-forward',
  '-A FORWARD -j ufw-reject-forward',
  '-A ufw-before-forward -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
  '-A ufw-before-forward -p icmp -m icmp --icmp-type 8 -j ACCEPT',
];
const FIREWALLD = [
  '-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED,DNAT -j ACCEPT',
  '-A FORWARD -i lo -j ACCEPT',
  '-A FORWARD -m conntrack --ctstate INVALID -j DROP',
  '-A FORWARD -j REJECT --reject-with icmp-host-prohibited',
];

test.each([
  ['nothing', chains('ACCEPT'), undefined],
  [
    'a policy alone',
    chains('DROP'),
    'forward: iptables-nft: chain FORWARD of table filter: its policy is DROP',
  ],
  [
    'docker',
    [...chains('DROP', 'DOCKER-USER', 'DOCKER-FORWARD', 'DOCKER-CT'), ...DOCKER],
    'forward: iptables-nft: chain FORWARD of table filter: its policy is DROP',
  ],
  [
    'ufw',
    [...chains('DROP', 'ufw-before-forward', 'ufw-reject-forward'), ...UFW],
    'forward: iptables-nft: chain FORWARD of table filter: its policy is DROP',
  ],
  [
    'firewalld, whose last rule rejects',
    [...chains('ACCEPT'), ...FIREWALLD],
    'forward: iptables-nft: chain FORWARD of table filter: -A FORWARD -j REJECT --reject-with icmp-host-prohibited',
  ],
  [
    'docker where flannel accepts pods',
    [
      ...chains('DROP', 'DOCKER-USER', 'FLANNEL-FWD'),
      '-A FORWARD -j DOCKER-USER',
      '-A FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD',
      '-A FLANNEL-FWD -s 10.1.0.0/16 -m comment --comment "flanneld forward" -j ACCEPT',
      '-A FLANNEL-FWD -d 10.1.0.0/16 -m comment --comment "flanneld forward" -j ACCEPT',
    ],
    undefined,
  ],
  [
    'answers of pods alone',
    [...chains('DROP'), '-A FORWARD -s 10.1.0.0/16 -j ACCEPT'],
    'forward: iptables-nft: chain FORWARD of table filter: its policy is DROP',
  ],
  [
    'half of the pods',
    [
      ...chains('DROP'),
      '-A FORWARD -d 10.1.0.0/17 -j ACCEPT',
      '-A FORWARD -s 10.1.0.0/16 -j ACCEPT',
    ],
    'forward: iptables-nft: chain FORWARD of table filter: its policy is DROP',
  ],
  [
    'a NetworkPolicy',
    [
      ...chains('ACCEPT'),
      '-A FORWARD -d 10.1.1.5/32 -j DROP',
      '-A FORWARD -p tcp -m tcp --dport 25 -j DROP',
    ],
    undefined,
  ],
  [
    'a negated range',
    [...chains('ACCEPT'), '-A FORWARD ! -d 172.17.0.2/32 -j DROP'],
    'forward: iptables-nft: chain FORWARD of table filter: -A FORWARD ! -d 172.17.0.2/32 -j DROP',
  ],
] as const)('FORWARD: %s', (_, lines, expected) => {
  expect(found(table('filter', lines))).toBe(expected);
});

const prerouting = (...lines: readonly string[]): string =>
  table('raw', [
    ':PREROUTING ACCEPT [0:0]',
    ':OUTPUT ACCEPT [0:0]',
    ':HOST - [0:0]',
    ':QUIET - [0:0]',
    ...lines,
  ]);
const hostFirewall = (rule: string): string =>
  `host-firewall: iptables-nft: chain PREROUTING of table raw: ${rule}`;

test.each([
  ['a closed NodePort', ['-A PREROUTING -i eth0 -p tcp -m tcp --dport 30080 -j DROP']],
  ['a range of ports', ['-A PREROUTING -p tcp -m tcp --dport 30000:32767 -j DROP']],
  ['several ports', ['-A PREROUTING -p tcp -m multiport --dports 22,30080 -j DROP']],
  ['the address of a load balancer', ['-A PREROUTING -d 203.0.113.0/24 -p tcp -j DROP']],
  ['a set', ['-A PREROUTING -m set ! --match-set allowed src -j DROP']],
  ['all but a port', ['-A PREROUTING -p tcp -m tcp ! --dport 22 -j DROP']],
  ['all but some ports', ['-A PREROUTING -p tcp -m multiport ! --dports 22,80 -j DROP']],
  ['an uplink of OpenShift', ['-A PREROUTING -i br-ex -j DROP']],
  ['an uplink at the main board', ['-A PREROUTING -i lom1 -j DROP']],
  ['interfaces by the beginning of their names', ['-A PREROUTING -i lo+ -j DROP']],
  ['interfaces by their first letter', ['-A PREROUTING -i l+ -j DROP']],
  ['bridges', ['-A PREROUTING -i br-+ -j DROP']],
  ['all but ping', ['-A PREROUTING ! -p icmp -j DROP']],
  ['all but TCP', ['-A PREROUTING ! -p tcp -j DROP']],
  ['all but loopback', ['-A PREROUTING ! -i lo -j DROP']],
  ['all but a network', ['-A PREROUTING ! -d 10.0.0.0/8 -j DROP']],
  ['addresses of others', ['-A PREROUTING -m addrtype ! --dst-type LOCAL -j DROP']],
  ['what is not established', ['-A PREROUTING -m conntrack ! --ctstate ESTABLISHED -j DROP']],
  [
    'after all but one address',
    [
      '-A PREROUTING ! -d 192.0.2.11/32 -j RETURN',
      '-A PREROUTING -p tcp -m tcp --dport 30080 -j DROP',
    ],
    '-A PREROUTING -p tcp -m tcp --dport 30080 -j DROP',
  ],
  [
    'after a port of TCP',
    ['-A PREROUTING -p tcp -m tcp ! --dport 22 -j ACCEPT', '-A PREROUTING -p udp -j DROP'],
    '-A PREROUTING -p udp -j DROP',
  ],
  [
    'a chain',
    ['-A PREROUTING -m addrtype --dst-type LOCAL -j HOST', '-A HOST -s 198.51.100.0/24 -j DROP'],
    '-A HOST -s 198.51.100.0/24 -j DROP',
  ],
] as const)('PREROUTING: %s', (_, lines, by?: string) => {
  expect(found(prerouting(...lines))).toBe(hostFirewall(by ?? lines[0]));
});

test.each([
  ['other ports', '-A PREROUTING -p tcp -m tcp --dport 22 -j DROP'],
  ["docker's own containers", '-A PREROUTING -d 172.17.0.2/32 ! -i docker0 -j DROP'],
  ['ping', '-A PREROUTING -p icmp -j DROP'],
  ['loopback', '-A PREROUTING -i lo -j DROP'],
  [
    'all but ports of Services',
    '-A PREROUTING -p tcp -m multiport ! --dports 22,443:32767 -j DROP',
  ],
  ['a bridge of docker', '-A PREROUTING -i br-0123456789ab -j DROP'],
  ['a bridge of libvirt', '-A PREROUTING -i virbr0 -j DROP'],
  ['bridges of libvirt', '-A PREROUTING -i virbr+ -j DROP'],
  ['what is not new', '-A PREROUTING -m conntrack ! --ctstate NEW -j DROP'],
  ['other kinds than ping', '-A PREROUTING -p icmp -m icmp ! --icmp-type 8 -j DROP'],
  ['what is only marked', '-A PREROUTING -j MARK --set-xmark 0x40000/0xffff0000'],
  ['what is not tracked', '-A PREROUTING -p udp -m udp --dport 53 -j CT --notrack'],
  ['an empty chain', '-A PREROUTING -j QUIET'],
])('PREROUTING, of no Service: %s', (_, line) => {
  expect(found(prerouting(line))).toBeUndefined();
});

test('what is accepted before is not dropped', () => {
  const text = prerouting(
    '-A PREROUTING -j ACCEPT',
    '-A PREROUTING -p tcp -m tcp --dport 30080 -j DROP',
  );
  expect(found(text)).toBeUndefined();
});

test('without frontends a port that is closed says nothing', () => {
  const text = prerouting('-A PREROUTING -p tcp -m tcp --dport 30080 -j DROP');
  expect(found(text, { ...FACTS, frontends: [] })).toBeUndefined();
});

test('the text names the chain', () => {
  const rule = 'iptables: chain FORWARD of table filter: its policy is DROP';
  expect(obstacleText({ kind: 'forward', rule })).toContain(rule);
  expect(obstacleText({ kind: 'host-firewall', rule })).toContain(rule);
});

test('without Services, any NodePort and any pod is asked about', () => {
  const kinds = (raw: readonly string[], policy: string): readonly string[] => {
    const text = `${table('raw', raw)}${table('filter', chains(policy))}`;
    const rules = { saved: [{ program: 'iptables-nft', text }], nft: undefined };
    return possibleObstacles(rules).map(({ kind }) => kind);
  };
  const closing = (ports: string): readonly string[] => [
    ':PREROUTING ACCEPT [0:0]',
    `-A PREROUTING -p tcp -m multiport --dports ${ports} -j DROP`,
  ];
  expect(kinds(closing('30080:30090'), 'DROP')).toEqual(['forward', 'host-firewall']);
  expect(kinds(closing('22'), 'ACCEPT')).toEqual([]);
});
