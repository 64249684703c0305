// SPDX-License-Identifier: Apache-2.0
// What a start does, for every combination of answers.
import { describe, expect, test } from 'vitest';
import { type Engine, engineOf } from '../../../src/probe/choice.ts';
import { FEATURE_NAMES, type FeatureName } from '../../../src/probe/features.ts';
import { exitCodeOf, reportOf, tierOf } from '../../../src/probe/report.ts';
import type { Answer, Results } from '../../../src/probe/results.ts';

type Answers = Readonly<Partial<Record<FeatureName, Answer>>>;

/** All yes but these. */
const resultsWith = (answers: Answers): Results =>
  new Map(
    FEATURE_NAMES.map((name) => {
      const answer = answers[name] ?? 'yes';
      return [name, { answer, reason: answer === 'yes' ? '' : `no ${name}` }];
    }),
  );

const no = (...names: readonly FeatureName[]): Answers =>
  Object.fromEntries(names.map((name) => [name, 'no']));

const LINES: readonly (readonly [name: string, Answers, Engine, string])[] = [
  ['everything', {}, 'auto', 'sockets bpf, packets bpf'],
  ['everything', {}, 'bpf', 'sockets bpf, packets bpf'],
  ['everything', {}, 'iptables', 'sockets iptables, packets iptables'],
  ['no tcx', no('tcx'), 'auto', 'sockets bpf, packets bpf'],
  [
    'no programs on devices',
    no('tcx', 'clsact'),
    'auto',
    'sockets bpf, packets nftables: tcx: no tcx; clsact: no clsact',
  ],
  [
    'no programs on devices',
    no('tcx', 'clsact'),
    'bpf',
    'sockets bpf, packets nothing: tcx: no tcx; clsact: no clsact',
  ],
  [
    'packet programs refused',
    no('packet programs'),
    'auto',
    'sockets bpf, packets nftables: packet programs: no packet programs',
  ],
  ['PREEMPT_RT', no('softirqs'), 'auto', 'sockets bpf, packets nftables: softirqs: no softirqs'],
  ['PREEMPT_RT', no('softirqs'), 'bpf', 'sockets bpf, packets nothing: softirqs: no softirqs'],
  [
    'packet programs refused, and no iptables',
    no('packet programs', 'iptables-nft', 'iptables-legacy'),
    'auto',
    'sockets bpf, packets nftables: packet programs: no packet programs',
  ],
  [
    'packet programs refused, and no rules',
    no('packet programs', 'iptables-nft', 'iptables-legacy', 'nftables IPv4'),
    'auto',
    'sockets bpf, packets nothing: packet programs: no packet programs',
  ],
  [
    'neither eBPF nor iptables',
    no('bpf()', 'xt_statistic'),
    'auto',
    'sockets nftables, packets nftables: bpf(): no bpf()',
  ],
  [
    'no eBPF, and both kinds of rules',
    no('bpf()'),
    'auto',
    'sockets nftables, packets nftables: bpf(): no bpf()',
  ],
  [
    'no eBPF, no nftables, iptables-legacy',
    no('bpf()', 'iptables-nft', 'nftables IPv4'),
    'auto',
    'sockets iptables, packets iptables: bpf(): no bpf(): nftables: nftables IPv4: no nftables IPv4',
  ],
  [
    'no eBPF, and nft alone is installed',
    no('bpf()', 'iptables-nft', 'iptables-legacy'),
    'auto',
    'sockets nftables, packets nftables: bpf(): no bpf()',
  ],
  [
    'no eBPF, no iptables; of nftables it could not be told',
    { ...no('bpf()', 'xt_statistic'), 'nftables IPv4': 'could not tell' },
    'auto',
    'sockets nftables, packets nftables: bpf(): no bpf()',
  ],
  [
    'no eBPF, and no rules of either kind',
    no('bpf()', 'xt_statistic', 'nftables IPv4'),
    'auto',
    'sockets userspace, packets userspace: bpf(): no bpf(): iptables: xt_statistic: no xt_statistic: nftables: nftables IPv4: no nftables IPv4',
  ],

  ['everything', {}, 'userspace', 'sockets userspace, packets userspace'],
  [
    'neither programs nor rules, for which nobody has asked',
    no('bpf()', 'CAP_BPF', 'xt_statistic', 'nftables IPv4', 'nf_conntrack'),
    'userspace',
    'sockets userspace, packets userspace',
  ],
  [
    'no capability, no addon',
    no('loopback addresses', 'relay thread'),
    'userspace',
    'sockets userspace, packets userspace: loopback addresses: no loopback addresses: relay thread: no relay thread',
  ],
  ['nftables', {}, 'nftables', 'sockets nftables, packets nftables'],
  ['no nftables', no('nftables IPv4'), 'nftables', 'NO_NFTABLES: nftables IPv4: no nftables IPv4'],
  [
    'no cgroup v2',
    no('cgroup v2'),
    'auto',
    'sockets nftables, packets nftables: cgroup v2: no cgroup v2',
  ],
  ['no cgroup v2', no('cgroup v2'), 'bpf', 'NO_CGROUP2: cgroup v2: no cgroup v2'],
  [
    'the first cause is the reason',
    no('socket programs', 'cgroup links', 'BTF'),
    'bpf',
    'NO_BTF: BTF: no BTF',
  ],
  ['bpf() forbidden', no('bpf()', 'socket programs'), 'bpf', 'NO_PRIVILEGE: bpf(): no bpf()'],
  ['old kernel', no('SK_STORAGE'), 'bpf', 'OLD_KERNEL: SK_STORAGE: no SK_STORAGE'],
  ['no ring buffer', no('ring buffer'), 'bpf', 'OLD_KERNEL: ring buffer: no ring buffer'],
  [
    'programs refused',
    no('socket programs'),
    'bpf',
    'PROGRAM_REFUSED: socket programs: no socket programs',
  ],
  ['legacy only', no('iptables-nft'), 'iptables', 'sockets iptables, packets iptables'],
  [
    'no iptables',
    no('iptables-nft', 'iptables-legacy'),
    'iptables',
    'NO_IPTABLES: iptables-nft: no iptables-nft; iptables-legacy: no iptables-legacy',
  ],
  ['no iptables', no('iptables-nft', 'iptables-legacy'), 'auto', 'sockets bpf, packets bpf'],
  [
    'no match that every rule needs',
    no('xt_statistic'),
    'iptables',
    'NO_IPTABLES: xt_statistic: no xt_statistic',
  ],
  ['no affinity by rules', no('xt_recent'), 'iptables', 'sockets iptables, packets iptables'],
  [
    'neither',
    no('bpf()', 'nf_conntrack'),
    'auto',
    'sockets userspace, packets userspace: bpf(): no bpf(): iptables: nf_conntrack: no nf_conntrack: nftables: nf_conntrack: no nf_conntrack',
  ],
  [
    'neither, and no privilege for addresses either',
    no('CAP_NET_ADMIN'),
    'auto',
    'NO_IPTABLES: eBPF: CAP_NET_ADMIN: no CAP_NET_ADMIN; iptables: CAP_NET_ADMIN: no CAP_NET_ADMIN; nftables: CAP_NET_ADMIN: no CAP_NET_ADMIN',
  ],
  [
    'no eBPF, nftables without IPv6',
    no('bpf()', 'nftables IPv6'),
    'auto',
    'sockets iptables, packets iptables: bpf(): no bpf(): nftables cannot serve IPv6 on this node',
  ],
  [
    'what could not be told is tried',
    { 'socket programs': 'could not tell', 'packet programs': 'could not tell' },
    'auto',
    'sockets bpf, packets bpf',
  ],
];

describe('the engine of a start', () => {
  test.each(LINES)('%s (%o), asked for %s: %s', (_, answers, asked, expected) => {
    const engine = engineOf(resultsWith(answers), asked);
    const text = engine.ok
      ? [`sockets ${engine.sockets}, packets ${engine.packets}`, ...engine.why].join(': ')
      : `${engine.code}: ${engine.reason}`;
    expect(text).toBe(expected);
  });

  test('every feature of which a no changes the engine names its reason', () => {
    for (const name of FEATURE_NAMES) {
      for (const asked of ['auto', 'bpf', 'iptables'] as const) {
        const whole = engineOf(resultsWith({}), asked);
        const engine = engineOf(resultsWith(no(name)), asked);
        if (!engine.ok) expect(engine.reason).toContain(`no ${name}`);
        else if (whole.ok && engine.packets !== whole.packets) {
          expect(engine.why.join()).toContain(`no ${name}`);
        }
      }
    }
  });
});

describe('the ways of its parts', () => {
  const waysWith = (answers: Answers) => {
    const engine = engineOf(resultsWith(answers), 'auto');
    return engine.ok ? engine.ways : undefined;
  };

  const TCX = { devices: 'tcx links', refusedConnections: 'ECONNREFUSED' };
  const SWEEP = { expiredFlows: 'deleted in the kernel' };
  const NONE = { devices: undefined, expiredFlows: undefined };

  test.each([
    [{}, { ...TCX, ...SWEEP, staleSockets: 'bpf_sock_destroy' }],
    [
      no('tcx', 'set_retval', 'in-kernel sweep', 'bpf_sock_destroy'),
      {
        ...{ devices: 'clsact filters', refusedConnections: 'EPERM' },
        ...{ expiredFlows: 'never deleted', staleSockets: 'SOCK_DESTROY' },
      },
    ],
    [
      no('packet programs', 'bpf_sock_destroy', 'SOCK_DESTROY'),
      { ...NONE, refusedConnections: 'ECONNREFUSED', staleSockets: 'left alone' },
    ],
    [no('socket programs'), { ...NONE, refusedConnections: undefined, staleSockets: undefined }],
    [
      { tcx: 'could not tell', bpf_sock_destroy: 'no', SOCK_DESTROY: 'could not tell' } as const,
      { ...TCX, devices: 'could not tell', ...SWEEP, staleSockets: 'could not tell' },
    ],
  ])('with %o: %o', (answers, ways) => {
    expect(waysWith(answers)).toEqual(ways);
  });
});

describe('a report for --engine userspace', () => {
  const reportWith = (answers: Answers) => reportOf(resultsWith(answers), '6.1', 'userspace');

  test('has what sockets of the agent use, its own rows first, and no tier of eBPF', () => {
    const report = reportWith(no('bpf()'));
    const rows = ['relay thread', 'loopback addresses', 'IPv6'];
    expect(report.items.map(({ feature }) => feature)).toEqual(rows);
    expect(report).not.toHaveProperty('tier');
    expect(exitCodeOf(report)).toBe(0);
  });

  test('is of a degraded start where ports stand for addresses', () => {
    const report = reportWith(no('loopback addresses'));
    expect(report.engine).toMatchObject({ ok: true, ways: { addresses: 'ports of 127.0.0.1' } });
    expect(exitCodeOf(report)).toBe(3);
  });
});

describe('the tier', () => {
  test.each([
    [{}, '6.6', undefined, []],
    [no('bpf_sock_destroy'), '6.1', '6.6', ['bpf_sock_destroy']],
    [no('tcx', 'set_retval', 'bpf_loop'), '5.12', '6.1', ['set_retval']],
    [no('packet programs', 'set_retval'), '5.10', '5.12', ['packet programs']],
    [no('in-kernel sweep'), '5.10', '5.12', ['in-kernel sweep']],
    [no('for_each', 'bpf_loop'), '6.6', undefined, []],
    [no('socket programs'), undefined, '5.10', ['socket programs']],
    [{ tcx: 'could not tell' as const }, '6.1', '6.6', ['tcx']],
  ])('with %o: %s', (answers, name, next, missing) => {
    expect(tierOf(resultsWith(answers))).toEqual({ name, next, missing });
  });
});

test('an item that is not yes says what follows and what would change it', () => {
  const results = resultsWith({ tcx: 'no', clsact: 'could not tell' });
  const { items } = reportOf(results, '6.1', 'auto');
  const item = (name: string) => items.find(({ feature }) => feature === name);
  expect(item('BTF')).not.toHaveProperty('remedy');
  expect(item('tcx')).toMatchObject({ answer: 'no', remedy: 'Linux 6.6 or newer' });
  expect(item('clsact')?.consequence).toMatch(/^if it is missing: without tcx/);
  expect(item('clsact')?.remedy).toBe('probe as root, on the node itself');
});

describe('the exit code', () => {
  test.each([
    [{}, 0],
    [no('tcx'), 0],
    [no('packet programs'), 3],
    [no('cgroup v2'), 3],
    [no('cgroup v2', 'nf_conntrack'), 3],
    [no('CAP_NET_ADMIN'), 5],
  ])('with %o: %d', (answers, code) => {
    expect(exitCodeOf(reportOf(resultsWith(answers), '6.1', 'auto'))).toBe(code);
  });
});
