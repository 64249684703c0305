// SPDX-License-Identifier: Apache-2.0
// The arithmetic of bench:packets: rates, ratios, turns, counts of programs, and the tables that come of them.
import { describe, expect, test } from 'vitest';
import { added, NOTHING_COUNTED, perRun, sumCounts } from '../../../../bench/packets/programs.ts';
import type { PacketReport, SizeFigures } from '../../../../bench/packets/report/figures.ts';
import { packetMarkdown } from '../../../../bench/packets/report/markdown.ts';
import { programCells, rateCells } from '../../../../bench/packets/report/rate-cells.ts';
import {
  medianRate,
  perCoreSecond,
  ratioTo,
  shareOf,
} from '../../../../bench/packets/report/ratios.ts';
import { otherObjects } from '../../../../bench/packets/site/objects.ts';
import { asText } from '../../../../tools/bench/lib/tables.ts';
import type { Sample } from '../../../../tools/lab/columns/traffic.ts';
import { turns } from '../../../../tools/lab/columns/turns.ts';

const SECOND_NS = 1e9;
/** So many units in a second of CPU time. */
const rate = (units: number, lost = 0): Sample => ({
  ...{ units, cpuNs: SECOND_NS, lost, resent: 0 },
});
const rates = (...units: readonly number[]): Sample[] => units.map((each) => rate(each));

describe('rates', () => {
  test.each([
    ['by CPU time', { units: 50, cpuNs: SECOND_NS / 2, lost: 0, resent: 0 }, 100],
    ['of nothing that took no time', { units: 0, cpuNs: 0, lost: 1, resent: 0 }, Number.NaN],
  ])('%s', (_, sample, expected) => expect(perCoreSecond(sample)).toBe(expected));

  test('the median is of rates, not of units', () =>
    expect(
      medianRate([{ units: 9, cpuNs: SECOND_NS * 9, lost: 0, resent: 0 }, ...rates(2, 3)]),
    ).toBe(2));

  test('a ratio is taken in each round before the median is', () => {
    // The second round was slow for both: the ratio of medians would be 0.5.
    expect(ratioTo(rates(100, 50, 100), rates(90, 45, 50))).toEqual({
      median: 0.9,
      quartiles: [0.5, 0.9],
    });
  });

  test('a round that one of them lacks does not count', () =>
    expect(ratioTo(rates(100, 100), rates(80)).median).toBe(0.8));

  test('nor does a round in which nothing arrived', () => {
    const nothing = { units: 0, cpuNs: 0, lost: 1, resent: 0 };
    expect(ratioTo(rates(100, 100, 100), [...rates(80), nothing, ...rates(90)]).quartiles).toEqual([
      0.8, 0.9,
    ]);
  });

  test.each([
    ['none', [rate(10)], 0],
    ['a part of what was sent', [rate(5, 0), rate(3, 2)], 0.2],
    ['all', [rate(0, 7)], 1],
  ])('lost: %s', (_, samples, expected) => expect(shareOf('lost', samples)).toBe(expected));

  test('resent connections are a share of all', () =>
    expect(shareOf('resent', [{ ...rate(8, 2), resent: 1 }])).toBe(0.1));
});

test('each column is once in each position', () => {
  const columns = ['a', 'b', 'c'];
  const rounds = [0, 1, 2].map((round) => turns(columns, round));
  expect(rounds).toEqual([
    ['a', 'b', 'c'],
    ['b', 'c', 'a'],
    ['c', 'a', 'b'],
  ]);
  expect(turns(columns, 3)).toEqual(columns);
  expect(turns([], 3)).toEqual([]);
});

describe('counts of programs', () => {
  const directions = new Map([
    [7, 'ingress'],
    [8, 'egress'],
  ] as const);
  const handle = (id: number, runs: number, ns: number): string =>
    `pos:\t0\nprog_type:\t3\nprog_id:\t${id}\nrun_time_ns:\t${ns}\nrun_cnt:\t${runs}\n`;

  test('each program counts once, others and links do not', () => {
    const link = 'link_type:\ttcx\nlink_id:\t3\nprog_id:\t7\n';
    const infos = [
      link,
      handle(7, 10, 1000),
      handle(7, 10, 1000),
      handle(8, 5, 50),
      handle(9, 1, 1),
    ];
    expect(sumCounts(infos, directions)).toEqual({
      ingress: { runs: 10, ns: 1000 },
      egress: { runs: 5, ns: 50 },
    });
  });

  test('of one workload is what its rounds added', () => {
    const at = (...[runs, ns]: readonly [number, number]) =>
      sumCounts([handle(7, runs, ns), handle(8, runs / 2, ns / 4)], directions);
    const first = added(NOTHING_COUNTED, { before: at(10, 1000), after: at(20, 2000), units: 5 });
    const both = added(first, { before: at(90, 9000), after: at(100, 12_000), units: 5 });
    expect(perRun(both)).toEqual({
      ingress: { nsPerRun: 200, runsPerUnit: 2 },
      egress: { nsPerRun: 100, runsPerUnit: 1 },
    });
  });
});

const size: SizeFigures = {
  services: 10_000,
  loadAfter: 2,
  samples: {
    'udp local': {
      plain: rates(200_000),
      fairlead: rates(190_000),
      nftables: [rate(150_000, 50_000)],
    },
    'tcp no Service': {
      plain: rates(20_000),
      fairlead: rates(20_000),
      nftables: [{ ...rate(15_000), resent: 150 }],
    },
    'bulk remote': { plain: rates(5e9), fairlead: rates(5e9), nftables: rates(4e9) },
  },
  programs: {
    fairlead: {
      'udp local': {
        ingress: { nsPerRun: 200.4, runsPerUnit: 1 },
        egress: { nsPerRun: 100, runsPerUnit: 1 },
      },
    },
    empty: {
      'udp local': {
        ingress: { nsPerRun: 70, runsPerUnit: 1 },
        egress: { nsPerRun: 60.1, runsPerUnit: 1 },
      },
    },
  },
};

test('a row for each workload, a ratio for each column but the first, and losses', () => {
  expect(rateCells(size)).toEqual([
    ['10,000 Services', 'plain routing', 'fairlead tc', 'kube-proxy nftables'],
    [
      ...['datagrams, 1,000/s, local', '200.0', '190.0: 0.95 (0.95–0.95)'],
      '150.0: 0.75 (0.75–0.75), 25.0 % lost',
    ],
    [
      ...['connections, 1,000/s, no Service', '20.0', '20.0: 1.00 (1.00–1.00)'],
      '15.0: 0.75 (0.75–0.75), 1.0 % resent',
    ],
    ['bulk TCP, Gbit/s, remote', '40.0', '40.0: 1.00 (1.00–1.00)', '32.0: 0.80 (0.80–0.80)'],
  ]);
  expect(programCells(size)).toEqual([
    [
      ...['ns per run, 10,000', 'empty programs: ingress', 'egress'],
      ...['fairlead tc: ingress', 'egress'],
    ],
    ['datagrams, local', '70', '60', '200', '100'],
  ]);
  expect(programCells({ ...size, programs: {} })).toEqual([]);
});

test('a terminal gets columns', () => {
  expect(
    asText([
      ['a', 'bb'],
      ['ccc', 'd'],
    ]),
  ).toBe('a    bb\nccc  d');
});

test('Markdown says what was not measured', () => {
  const report: PacketReport = {
    ...{ date: '2026-01-31', commit: 'abc1234', hasUncommittedChanges: false, rounds: 15 },
    machine: { cpu: 'Some CPU', cores: 2, kernel: '6.18.0', node: 'v20.20.0', loadBefore: 0.25 },
    skipped: { iptables: 'needs Go' },
    sizes: [size],
    frames: [],
  };
  const text = packetMarkdown(report);
  expect(text.split('\n').slice(0, 3)).toEqual([
    '2026-01-31, commit abc1234; 2 × Some CPU, Linux 6.18.0; 15 rounds;',
    'load of the machine before the run and after each size 0.3, 2.0.',
    'kube-proxy iptables was not measured: needs Go',
  ]);
  expect(text).toContain('| datagrams, local | 70 | 60 | 200 | 100 |');
});

test('all Services have addresses of their own, and the one that is awaited comes last', () => {
  const changes = otherObjects(9_999);
  const services = changes.filter(({ ref }) => ref.kind === 'Service');
  const addresses = services.map((change) =>
    change.type === 'put' ? (change.object as { spec: { clusterIP: string } }).spec.clusterIP : '',
  );
  expect(new Set(addresses).size).toBe(9_999);
  expect(changes.slice(-2).map(({ ref }) => ref.name)).toEqual(['last', 'last']);
});
