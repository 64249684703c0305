// SPDX-License-Identifier: Apache-2.0
// The interpreter of rules that other tests rely on: each match, each target, their order, and the way of a packet
// through hooks and tables, on rules written by hand.
import { describe, expect, it } from 'vitest';
import type { TracedPacket, World } from '../../../../support/iptables/packet.ts';
import { rulesetOf } from '../../../../support/iptables/ruleset.ts';
import { trace } from '../../../../support/iptables/trace.ts';
import { verdictOf } from '../../../../support/iptables/verdict.ts';

const NODE = '192.0.2.11';

const world = (recent: readonly string[] = []): World => ({
  isLocal: (address) => address === NODE || address.startsWith('127.') || address === '::1',
  isRecent: (list, address, seconds) => seconds >= 60 && recent.includes(`${list} ${address}`),
  snatAddress: NODE,
});

const PACKET: TracedPacket = {
  protocol: 'TCP',
  source: '10.1.1.9',
  sourcePort: 40000,
  destination: '10.96.0.10',
  destinationPort: 80,
  inInterface: 'veth1',
  state: 'NEW',
  mark: 0,
  isDnat: false,
};

/** `drop`, `unmatched`, `10.1.1.5:8080 0.5 10.1.1.6:8080 0.5 snat`: what comes of the packet. */
function outcome(text: string, packet: Partial<TracedPacket> = {}, recent?: readonly string[]) {
  const family = packet.source?.includes(':') ? 'IPv6' : 'IPv4';
  const paths = trace(rulesetOf(text, family), world(recent), { ...PACKET, ...packet });
  const { verdict, backends } = verdictOf(paths);
  if (verdict !== 'accept to backend') return verdict;
  return backends
    .map(({ backend, probability, masquerade }) => {
      const share = probability === 1 ? '' : ` ${probability.toFixed(4)}`;
      return `${backend}${share}${{ yes: ' snat', no: '', mixed: ' mixed' }[masquerade]}`;
    })
    .join(' ');
}

const inTable = (name: string, lines: readonly string[]): string =>
  [`*${name}`, ...lines, 'COMMIT', ''].join('\n');

/** Is the packet dropped by a rule of FORWARD with this match? */
const isMatched = (match: string, packet: Partial<TracedPacket>): boolean =>
  outcome(inTable('filter', [`-A FORWARD ${match} -j DROP`]), packet) === 'drop';

const NONE = '255.255.255.255';
const MATCHES: Readonly<Record<string, readonly [Partial<TracedPacket>, Partial<TracedPacket>]>> = {
  '-s 10.1.1.0/24': [{ source: '10.1.1.255' }, { source: '10.1.2.0' }],
  '-s 10.1.1.9/32': [{}, { source: '10.1.1.8' }],
  '! -s 10.1.1.0/24': [{ source: '10.1.2.0' }, {}],
  '-d 10.96.0.0/16': [{}, { destination: '10.97.0.10' }],
  '! -d 10.96.0.10/32': [{ destination: '10.96.0.11' }, {}],
  '-d fd00:96::/112': [
    { source: 'fd00::9', destination: 'fd00:96::10' },
    { source: 'fd00::9', destination: 'fd00:97::10' },
  ],
  '-i veth1': [{}, { inInterface: 'veth12' }],
  '-i veth+': [{ inInterface: 'veth12' }, { inInterface: 'eth0' }],
  '! -i veth+': [{ inInterface: 'eth0' }, {}],
  '-p udp -m udp': [{ protocol: 'UDP' }, {}],
  '-p tcp -m tcp --dport 80': [{}, { destinationPort: 8080 }],
  '-p sctp -m sctp --dport 80': [{ protocol: 'SCTP' }, { protocol: 'TCP' }],
  '-m conntrack --ctstate NEW': [{}, { state: 'ESTABLISHED' }],
  '-m conntrack --ctstate RELATED,ESTABLISHED': [{ state: 'RELATED' }, { state: 'INVALID' }],
  '-m conntrack --ctstate INVALID': [{ state: 'INVALID' }, {}],
  '-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT': [{}, { isDnat: true }],
  '-m conntrack --ctstate DNAT': [{ isDnat: true }, {}],
  '-m addrtype --src-type LOCAL': [{ source: NODE }, {}],
  '-m mark --mark 0x4000/0x4000': [{ mark: 0x4001 }, { mark: 0x1 }],
  '-m mark --mark 0x4000': [{ mark: 0x4000 }, { mark: 0x4001 }],
  '-m mark ! --mark 0x4000/0x4000': [{ mark: 0x1 }, { mark: 0x4000 }],
  '-m mark --mark 0x80000000/0x80000000': [{ mark: 0x80000000 }, { mark: 0x40000000 }],
  '-m comment --comment x': [{}, { state: 'INVALID', isDnat: true, destination: NODE }],
  '-s 10.1.1.9/32 -p tcp -m tcp --dport 80': [{}, { source: '10.1.1.9', destinationPort: 81 }],
};

describe('matches', () => {
  for (const [match, [met, missed]] of Object.entries(MATCHES)) {
    it(match, () =>
      expect([met, missed].map((one) => isMatched(match, one))).toEqual([true, false]),
    );
  }

  it('--dst-type LOCAL', () => {
    const rules = inTable('filter', ['-A INPUT -m addrtype --dst-type LOCAL -j DROP']);
    expect(outcome(rules, { destination: NODE })).toBe('drop');
    expect(outcome(rules)).toBe('unmatched');
  });

  it('what a process of the node sends has no interface', () => {
    const rule = (match: string) => inTable('filter', [`-A OUTPUT ${match} -j DROP`]);
    const sent = { inInterface: undefined };
    expect(outcome(rule('-i veth1'), sent)).toBe('unmatched');
    expect(outcome(rule('! -i lo'), sent)).toBe('drop');
  });

  it('a rule that cannot be read is an error, not a miss', () => {
    const rules = inTable('filter', ['-A FORWARD -m limit --limit 5/min -j DROP']);
    expect(() => outcome(rules)).toThrow('-m limit --limit 5/min');
  });
});

describe('targets and order', () => {
  const CHAINS = [':A - [0:0]', ':B - [0:0]'];
  const ORDERS: Readonly<Record<string, readonly [rules: readonly string[], met: string]>> = {
    'the first rule that ends it counts': [
      ['-A FORWARD -j ACCEPT', '-A FORWARD -j DROP'],
      'unmatched',
    ],
    'a chain returns to the rule after its jump': [
      ['-A FORWARD -j A', '-A FORWARD -j DROP', '-A A -m comment --comment x'],
      'drop',
    ],
    'RETURN leaves one chain': [
      ['-A FORWARD -j A', '-A FORWARD -j DROP', '-A A -j B', '-A A -j ACCEPT', '-A B -j RETURN'],
      'unmatched',
    ],
    'RETURN of a built-in chain is its policy': [
      ['-A FORWARD -j RETURN', '-A FORWARD -j DROP'],
      'unmatched',
    ],
    'a rule without a target only counts': [['-A FORWARD', '-A FORWARD -j DROP'], 'drop'],
    'REJECT ends it': [
      ['-A FORWARD -j REJECT --reject-with icmp-port-unreachable', '-A FORWARD -j DROP'],
      'reject',
    ],
  };
  for (const [name, [rules, met]] of Object.entries(ORDERS)) {
    it(name, () => expect(outcome(inTable('filter', [...CHAINS, ...rules]))).toBe(met));
  }

  it('marks are changed bit by bit', () => {
    const marks = (xmark: string, mark: number): number | undefined =>
      trace(
        rulesetOf(inTable('mangle', [`-A FORWARD -j MARK --set-xmark ${xmark}`]), 'IPv4'),
        world(),
        {
          ...PACKET,
          mark,
        },
      )[0]?.packet.mark;
    expect(marks('0x4000/0x4000', 0x1)).toBe(0x4001);
    expect(marks('0x4000/0x4000', 0x4001)).toBe(0x4001);
    expect(marks('0x4000/0x0', 0x4001)).toBe(0x1);
    expect(marks('0x5/0xffffffff', 0x80000000)).toBe(0x5);
    expect(marks('0x80000000/0x80000000', 0x1)).toBe(0x80000001);
  });

  it('a chain that is missing, and one that comes back to itself, are errors', () => {
    expect(() => outcome(inTable('filter', ['-A FORWARD -j A']))).toThrow('no chain A');
    const loop = inTable('filter', [...CHAINS, '-A FORWARD -j A', '-A A -j B', '-A B -j A']);
    expect(() => outcome(loop)).toThrow('chain A comes back to itself');
  });

  it('what the kernel would refuse is an error', () => {
    const dnat = '-j DNAT --to-destination 10.1.1.5:8080';
    expect(() => outcome(inTable('nat', [`-A POSTROUTING ${dnat}`]))).toThrow('POSTROUTING');
    expect(() => outcome(inTable('filter', [`-A FORWARD ${dnat}`]))).toThrow('in filter');
    expect(() => outcome(inTable('nat', ['-A PREROUTING -j MASQUERADE']))).toThrow('PREROUTING');
    const reject = '-A PREROUTING -j REJECT --reject-with icmp-port-unreachable';
    expect(() => outcome(inTable('nat', [reject]))).toThrow('in nat');
  });
});

const TO = '-j DNAT --to-destination';
const DNAT = `-A PREROUTING -d 10.96.0.10/32 ${TO} 10.1.1.5:8080`;

describe('the way through hooks and tables', () => {
  it('a packet that comes in is translated before it is routed', () => {
    const dropped = (hook: string, to: string) =>
      outcome(
        inTable('nat', [`-A PREROUTING ${TO} ${to}`]) + inTable('filter', [`-A ${hook} -j DROP`]),
      );
    expect(dropped('FORWARD', '10.1.1.5:8080')).toBe('drop');
    expect(dropped('INPUT', '10.1.1.5:8080')).toBe('10.1.1.5:8080');
    expect(dropped('INPUT', `${NODE}:8080`)).toBe('drop');
    expect(dropped('FORWARD', `${NODE}:8080`)).toBe(`${NODE}:8080`);
  });

  it('filter sees what nat has made of it, in OUTPUT, too', () => {
    for (const [hook, inInterface] of [
      ['PREROUTING', 'veth1'],
      ['OUTPUT', undefined],
    ] as const) {
      const nat = inTable('nat', [`-A ${hook} -d 10.96.0.10/32 ${TO} 10.1.1.5:8080`]);
      const filter = (to: string) => {
        const chain = hook === 'OUTPUT' ? 'OUTPUT' : 'FORWARD';
        return inTable('filter', [`-A ${chain} -d ${to} -j DROP`]);
      };
      expect(outcome(nat + filter('10.1.1.5/32'), { inInterface })).toBe('drop');
      expect(outcome(nat + filter('10.96.0.10/32'), { inInterface })).toBe('10.1.1.5:8080');
    }
  });

  it('the order of tables in the text means nothing', () => {
    const filter = inTable('filter', ['-A FORWARD -d 10.96.0.10/32 -j DROP']);
    expect(outcome(filter + inTable('nat', [DNAT]))).toBe('10.1.1.5:8080');
  });

  it('a packet of the node meets OUTPUT, not PREROUTING', () => {
    const sent = { inInterface: undefined, source: NODE };
    expect(outcome(inTable('nat', [DNAT]), sent)).toBe('unmatched');
    expect(outcome(inTable('nat', [DNAT.replace('PREROUTING', 'OUTPUT')]), sent)).toBe(
      '10.1.1.5:8080',
    );
    expect(outcome(inTable('nat', [DNAT.replace('PREROUTING', 'OUTPUT')]))).toBe('unmatched');
  });

  it('what the node sends to itself comes in by lo, and nat is not asked again', () => {
    const self = { inInterface: undefined, source: NODE, destination: NODE };
    expect(outcome(inTable('filter', ['-A INPUT -i lo -j DROP']), self)).toBe('drop');
    expect(outcome(inTable('filter', ['-A FORWARD -j DROP']), self)).toBe('unmatched');
    expect(outcome(inTable('nat', [`-A PREROUTING ${TO} 10.1.1.5:8080`]), self)).toBe('unmatched');
  });

  it('only the first packet of a connection meets nat', () => {
    for (const state of ['ESTABLISHED', 'INVALID'] as const)
      expect(outcome(inTable('nat', [DNAT]), { state })).toBe('unmatched');
  });

  const MASQUERADE = [
    '-A POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN',
    '-A POSTROUTING -j MARK --set-xmark 0x4000/0x0',
    '-A POSTROUTING -j MASQUERADE --random-fully',
  ];

  it('a mark of PREROUTING is there in POSTROUTING', () => {
    const marked = '-A PREROUTING -s 10.1.1.9/32 -j MARK --set-xmark 0x4000/0x4000';
    const rules = inTable('nat', [marked, DNAT, ...MASQUERADE]);
    expect(outcome(rules)).toBe('10.1.1.5:8080 snat');
    expect(outcome(rules, { source: '10.1.1.8' })).toBe('10.1.1.5:8080');
    const paths = trace(rulesetOf(rules, 'IPv4'), world(), PACKET);
    expect(paths[0]?.packet).toMatchObject({ source: NODE, mark: 0 });
  });

  it('what is for the node itself meets no POSTROUTING', () => {
    const rules = inTable('nat', [
      '-A POSTROUTING -j MASQUERADE',
      `-A PREROUTING ${TO} ${NODE}:80`,
    ]);
    expect(outcome(rules)).toBe(`${NODE}:80`);
  });

  it('reads addresses of both families after --to-destination', () => {
    const rules = inTable('nat', [`-A PREROUTING ${TO} [fd00::5]:8080`]);
    expect(outcome(rules, { source: 'fd00::9', destination: 'fd00:96::10' })).toBe(
      '[fd00::5]:8080',
    );
    expect(outcome(inTable('nat', [`-A PREROUTING ${TO} 10.1.1.5`]))).toBe('10.1.1.5:80');
    expect(() => outcome(inTable('nat', [`-A PREROUTING ${TO} 10.1.1.5-10.1.1.9`]))).toThrow(
      '10.1.1.9',
    );
  });
});

const RANDOM = '-m statistic --mode random --probability';

describe('chance and memory', () => {
  const sep = (name: string, address: string): readonly string[] => [
    `-A ${name} -s ${address}/32 -j MARK --set-xmark 0x4000/0x4000`,
    `-A ${name} -p tcp -m recent --set --name ${name} --mask ${NONE} --rsource -m tcp ${TO} ${address}:8080`,
  ];
  const CHAINS = [':S1 - [0:0]', ':S2 - [0:0]', ':S3 - [0:0]', ':SVC - [0:0]'];
  const ENDS = [...sep('S1', '10.1.1.5'), ...sep('S2', '10.1.1.6'), ...sep('S3', '10.1.1.7')];
  const check = (name: string) =>
    `-A SVC -m recent --rcheck --seconds 60 --reap --name ${name} --mask ${NONE} --rsource -j ${name}`;
  const LAST = [
    '-A SVC -j S3',
    '-A PREROUTING -j SVC',
    '-A POSTROUTING -m mark --mark 0x4000 -j MASQUERADE',
  ];
  const three = inTable('nat', [
    ...CHAINS,
    ...ENDS,
    ...['S1', 'S2', 'S3'].map(check),
    `-A SVC ${RANDOM} 0.33333333349 -j S1`,
    `-A SVC ${RANDOM} 0.50000000000 -j S2`,
    ...LAST,
  ]);

  it('shares of a cascade multiply', () => {
    expect(outcome(three)).toBe('10.1.1.5:8080 0.3333 10.1.1.6:8080 0.3333 10.1.1.7:8080 0.3333');
    const skewed = inTable('nat', [...CHAINS, ...ENDS, `-A SVC ${RANDOM} 0.9 -j S1`, ...LAST]);
    expect(outcome(skewed)).toBe('10.1.1.5:8080 0.9000 10.1.1.7:8080 0.1000');
  });

  it('only a backend that is its own client is masqueraded', () => {
    expect(outcome(three, { source: '10.1.1.6' })).toBe(
      '10.1.1.5:8080 0.3333 10.1.1.6:8080 0.3333 snat 10.1.1.7:8080 0.3333',
    );
  });

  it('a client that is in the list of a backend gets it again', () => {
    expect(outcome(three, {}, ['S2 10.1.1.9'])).toBe('10.1.1.6:8080');
    expect(outcome(three, {}, ['S2 10.1.1.8'])).toContain('0.3333');
  });

  it('a path remembers the client in the list of its backend', () => {
    const paths = trace(rulesetOf(three, 'IPv4'), world(), PACKET);
    expect(paths.map(({ packet, remembered }) => [packet.destination, ...remembered])).toEqual([
      ['10.1.1.5', 'S1'],
      ['10.1.1.6', 'S2'],
      ['10.1.1.7', 'S3'],
    ]);
  });

  it('not the same on all paths is a verdict of its own', () => {
    expect(outcome(inTable('filter', [`-A FORWARD ${RANDOM} 0.5 -j DROP`]))).toBe('mixed');
  });

  it('the rules that matched are known, in order', () => {
    const paths = trace(rulesetOf(three, 'IPv4'), world(), PACKET);
    const rules = paths[1]?.matched.map(({ hook, table, chain }) => `${hook} ${table} ${chain}`);
    expect(rules).toEqual(['PREROUTING nat PREROUTING', 'PREROUTING nat SVC', 'PREROUTING nat S2']);
  });
});
