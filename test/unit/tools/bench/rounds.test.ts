// SPDX-License-Identifier: Apache-2.0
// Rounds of bench:control: how they become one column, the goals for rules of iptables, and starts that were given up.
import { describe, expect, test } from 'vitest';
import { parseOptions } from '../../../../bench/control/options.ts';
import { meanSeconds, NO_SYNCS, parseSyncs } from '../../../../bench/control/proxies/metrics.ts';
import type { Column, Figures, Report, Round } from '../../../../bench/control/report/figures.ts';
import { reportMarkdown } from '../../../../bench/control/report/markdown.ts';
import { columnsOf } from '../../../../bench/control/report/merge.ts';
import { ratioGoals, ratioText } from '../../../../bench/control/report/ratios.ts';
import { sizeText } from '../../../../bench/control/report/text.ts';
import { report, ruleFigures } from './figures.ts';

/** What takes this many times as long. */
const times = (factor: number): Figures => {
  const { start, quiet, syncs, flushedSeconds, cpuMsPerChange } = ruleFigures;
  return {
    ...ruleFigures,
    start: {
      ...start,
      wallSeconds: start.wallSeconds * factor,
      cpuSeconds: start.cpuSeconds * factor,
    },
    quiet: { ...quiet, samplesMs: quiet.samplesMs.map((ms) => ms * factor) },
    cpuMsPerChange: cpuMsPerChange * factor,
    syncs: { fullSeconds: syncs!.fullSeconds * factor, oneSeconds: syncs!.oneSeconds * factor },
    flushedSeconds: flushedSeconds! * factor,
  };
};
const round = (ours: Column, theirs: Column): Round => ({
  'fairlead-iptables': ours,
  iptables: theirs,
});
const unfinished: Column = { limitSeconds: 120, cpuSeconds: 117.4 };

describe('rounds as one column', () => {
  const rounds = [times(3), times(1), times(2)].map((theirs) => round(times(1), theirs));
  const { iptables } = columnsOf({ rounds });

  test('has the start of the middle round and the samples of all', () => {
    expect(iptables).toMatchObject({
      start: times(2).start,
      quiet: { samplesMs: [300, 600, 900, 100, 200, 300, 200, 400, 600] },
      cpuMsPerChange: 300,
      syncs: { fullSeconds: 2.5 },
      flushedSeconds: 3,
    });
  });

  test('is one that did not finish if any did not', () => {
    expect(columnsOf({ rounds: [...rounds, round(times(1), unfinished)] }).iptables).toBe(
      unfinished,
    );
  });

  test('are in the order of the table, whichever came first', () => {
    const backwards = { nftables: times(1), iptables: times(1), 'fairlead-iptables': times(1) };
    expect(Object.keys(columnsOf({ rounds: [backwards] }))).toEqual([
      'fairlead-iptables',
      'iptables',
      'nftables',
    ]);
  });
});

describe('goals in parts of kube-proxy', () => {
  const missed = (ours: number): readonly string[] =>
    ratioGoals({ rounds: [round(times(ours), times(1))] }, 'iptables')
      .filter(({ isMet }) => !isMet)
      .map(({ name }) => name);

  test('one change takes at most half, a full sync no longer', () => {
    expect(missed(0.5)).toEqual([]);
    expect(missed(1)).toEqual([
      'one change, p50',
      'one change, p99',
      expect.stringMatching(/^one change, sync/),
      'one change, CPU time',
    ]);
    expect(missed(1.1)).toHaveLength(8);
  });

  test('what the tools alone take is said of one change, in parts of what kube-proxy takes', () => {
    const goals = ratioGoals({ rounds: [round(times(0.5), times(1))] }, 'iptables');
    expect(
      goals.flatMap(({ name, least }) => (least === undefined ? [] : [[name, least]])),
    ).toEqual([
      ['one change, p50', 0.45],
      ['one change, sync by its metric', 1.2],
      ['one change, CPU time', 0.4],
    ]);
  });

  test('the middle of the rounds counts, each by itself', () => {
    const rounds = [
      round(times(0.2), times(1)),
      round(times(4), times(10)),
      round(times(3), times(1)),
    ];
    const goal = ratioGoals({ rounds }, 'iptables').find(({ name }) => name === 'one change, p50')!;
    expect(goal).toMatchObject({ ratio: 0.4, isMet: true });
    expect(ratioText(goal)).toBe('0.40 (0.20–3.00)');
  });

  test('of two rounds the mean counts, not the better one', () => {
    const rounds = [round(times(0.4), times(1)), round(times(0.8), times(1))];
    const goal = ratioGoals({ rounds }, 'iptables').find(({ name }) => name === 'one change, p50')!;
    expect([goal.isMet, ratioText(goal)]).toEqual([false, '0.60 (0.40–0.80)']);
  });

  test('a single round has no range', () => {
    expect(ratioText(ratioGoals({ rounds: [round(times(0.25), times(1))] }, 'iptables')[0]!)).toBe(
      '0.25',
    );
  });

  test('nothing is said of a figure that kube-proxy has before the change was answered', () => {
    const early = { ...times(1), quiet: { samplesMs: [-2, -1, 30], failures: 0 } };
    const names = ratioGoals({ rounds: [round(times(1), early)] }, 'iptables').map(
      ({ name }) => name,
    );
    expect(names).not.toContain('one change, p50');
    expect(names).toHaveLength(7);
  });

  test('nothing is said where one of the two did not finish or was not measured', () => {
    expect(ratioGoals({ rounds: [round(times(1), unfinished)] }, 'iptables')).toEqual([]);
    expect(ratioGoals({ rounds: [{ iptables: times(1) }] }, 'iptables')).toEqual([]);
  });

  test('of nftables are to kube-proxy in that mode', () => {
    const rounds = [{ 'fairlead-nftables': times(0.2), nftables: times(1), iptables: times(0.1) }];
    const goals = ratioGoals({ rounds }, 'nftables').map(({ name, ratio, isMet }) => [
      ...[name, Number(ratio.toFixed(2)), isMet],
    ]);
    expect(goals).toMatchObject([
      ['start, CPU time', 0.2, true],
      ['full sync, by its metric', 0.2, true],
      ['one change, p50', 0.2, true],
      ['one change, p99', 0.2, true],
      ['one change among 100/s, p50', 1, false],
      ['one change, CPU time', 0.2, false],
      ['100 changes/s, CPU time', 1, false],
    ]);
    expect(ratioGoals({ rounds }, 'iptables')).toEqual([]);
  });
});

describe('a start that was given up', () => {
  const size = {
    ...{ services: 10_000, endpointsEach: 10, loadSeconds: 50 },
    rounds: [round(times(1), unfinished)],
  };

  test('is told with its limit, and nothing else of it', () => {
    const lines = reportMarkdown({ ...report, sizes: [size] }).split('\n');
    expect(lines).toContain(
      '| start: exec → all probe Services answer, wall / CPU s | 3.00 / 2.00 | did not finish in 120 s / 117 |',
    );
    expect(lines).toContain('| rules after the start, lines | 44,066 | – |');
  });

  test('in the terminal, too', () => {
    expect(sizeText(size)).toContain('did not finish in 120 s / 117');
  });
});

describe('Markdown', () => {
  const withRules: Report = {
    ...report,
    iptables: 'nft',
    sizes: [
      { ...report.sizes[0]!, rounds: [round(times(0.4), times(1)), round(times(0.4), times(1))] },
    ],
  };

  test('says how many rounds there were, and whether the goals are met', () => {
    const lines = reportMarkdown(withRules).split('\n');
    expect(lines).toContain(
      '| 100 Services × 10, 2 rounds | fairlead iptables | kube-proxy iptables |',
    );
    expect(lines).toContain('| one change, p50 | 0.40 (0.40–0.40) | 0.45 | 0.5 | met |');
  });
});

describe('the metrics of syncs', () => {
  const METRICS = [
    'kubeproxy_sync_full_proxy_rules_duration_seconds_sum{ip_family="IPv4"} 2.5',
    'kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv4"} 2',
    'kubeproxy_sync_full_proxy_rules_duration_seconds_sum{ip_family="IPv6"} 9',
    'kubeproxy_sync_partial_proxy_rules_duration_seconds_sum{ip_family="IPv4"} 0.5',
    'kubeproxy_sync_partial_proxy_rules_duration_seconds_count{ip_family="IPv4"} 4',
  ].join('\n');

  test('of IPv4 are read', () => {
    expect(parseSyncs(METRICS)).toEqual({
      full: { count: 2, seconds: 2.5 },
      partial: { count: 4, seconds: 0.5 },
    });
  });

  test('are a mean of those between two readings', () => {
    expect(meanSeconds({ count: 1, seconds: 2 }, { count: 3, seconds: 3 })).toBe(0.5);
    expect(meanSeconds(NO_SYNCS, NO_SYNCS)).toBeUndefined();
  });
});

test('options of rules and rounds', () => {
  const { iptables, rounds, limit, proxies } = parseOptions([]);
  expect({ iptables, rounds, limit }).toEqual({ iptables: 'legacy', rounds: 1, limit: 300 });
  expect(proxies).toEqual([
    ...['fairlead', 'fairlead-iptables', 'fairlead-nftables', 'iptables', 'nftables'],
  ]);
  const given = ['--iptables', 'nft', '--rounds', '3', '--limit', '90'];
  expect(parseOptions(given)).toMatchObject({ iptables: 'nft', rounds: 3, limit: 90 });
});
