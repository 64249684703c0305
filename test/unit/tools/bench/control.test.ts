// SPDX-License-Identifier: Apache-2.0
// The report of bench:control: percentiles, rows, goals, and its Markdown.
import { describe, expect, test } from 'vitest';
import { goals } from '../../../../bench/control/report/goals.ts';
import { reportMarkdown } from '../../../../bench/control/report/markdown.ts';
import { ms, ROWS } from '../../../../bench/control/report/rows.ts';
import { sizeText } from '../../../../bench/control/report/text.ts';
import { percentile } from '../../../../tools/bench/lib/quantiles.ts';
import { changedAddresses, endpointAddress } from '../../../integration/cluster/objects/load.ts';
import { figures, report, ruleFigures } from './figures.ts';

const churn = figures.churn!;

describe('percentiles', () => {
  const hundred = Array.from({ length: 100 }, (_, index) => 100 - index);
  test.each([
    ['the middle of an odd number of values', [9, 1, 5], 0.5, 5],
    ['the lower of two in the middle', [1, 2, 3, 4], 0.5, 2],
    ['the 99th of a hundred', hundred, 0.99, 99],
    ['the highest of a few', [1, 2, 3], 0.99, 3],
    ['the highest of all', hundred, 1, 100],
    ['values are numbers, not texts', [10, 9, -1], 0.5, 9],
    ['none of none', [], 0.5, Number.NaN],
  ])('%s', (_, values, share, expected) => expect(percentile(values, share)).toBe(expected));
});

test.each([
  [0.04, '0.0'],
  [-1.26, '−1.3'],
  [99.94, '99.9'],
  [154.4, '154'],
  [4102.4, '4,102'],
])('%f ms is written %s', (value, text) => expect(ms(value)).toBe(text));

test('a row for each figure', () => {
  expect(ROWS.map(({ text }) => text(figures))).toEqual([
    '1.50 / 1.25',
    '–',
    '–',
    '–',
    '100 / 80 / 110',
    '1.0 / 3.0 (3)',
    '2.3',
    '–',
    '4.0 / 5.0 (2)',
    '6.0 / 9.0 (2)',
    '0.050 (100)',
    '300 / 40.0 / 20.0',
    '7',
    '0.5',
  ]);
});

test('of rules: how many, and what the syncs took', () => {
  const texts = ROWS.map(({ text }) => text(ruleFigures));
  expect(texts.slice(1, 4)).toEqual(['1.25 / 75.0', '1.50', '44,066']);
  expect(texts[7]).toBe('90.0 / 60.0');
});

test('changes without effect are reported', () => {
  const refused = { ...churn, refused: 3 };
  expect(ROWS.map(({ text }) => text({ ...figures, churn: refused }))).toContain(
    '0.050 (100, 3 refused)',
  );
});

describe('goals', () => {
  const missed = (change: object): readonly string[] =>
    goals({ ...figures, ...change })
      .filter(({ isMet }) => !isMet)
      .map(({ name }) => name);

  test.each([
    ['nothing', {}, []],
    [
      'the time of the start',
      { start: { wallSeconds: 2.01, cpuSeconds: 2 } },
      ['start, wall time'],
    ],
    ['its CPU', { start: { wallSeconds: 2, cpuSeconds: 2.01 } }, ['start, CPU time']],
    ['most changes', { quiet: { samplesMs: [5.1, 9], failures: 0 } }, ['one change, p50']],
    ['one change', { quiet: { samplesMs: [1, 10.1], failures: 0 } }, ['one change, p99']],
    [
      'one stream',
      { churn: { ...churn, last: { samplesMs: [1, 1, 21], failures: 0 } } },
      ['last of 100 changes/s, longest'],
    ],
    ['CPU', { churn: { ...churn, cpuCores: 0.11 } }, ['CPU at 100 changes/s']],
    [
      'memory',
      { memory: { ...figures.memory, peakAfterStartBytes: 121 * 2 ** 20 } },
      ['peak RSS after start'],
    ],
    [
      'memory later',
      { memory: { ...figures.memory, peakAfterChurnBytes: 121 * 2 ** 20 } },
      ['peak RSS after churn'],
    ],
    [
      'stalls',
      { stalls: { loadingMs: 0, startMs: 51, churnMs: 52 } },
      ['longest stall, start', 'longest stall, churn'],
    ],
    ['what was not measured', { quiet: { samplesMs: [] } }, ['one change, p50', 'one change, p99']],
  ])('%s missed', (_, change, expected) => expect(missed(change)).toEqual(expected));

  test('are reported only for the size they are set for', () => {
    const [small, large] = report.sizes.map((size) => sizeText(size));
    expect(small).not.toContain('goal');
    expect(large?.match(/^goal met/gm)).toHaveLength(10);
  });
});

test('a terminal gets one line for each row, in columns', () => {
  const [head, first] = sizeText(report.sizes[1]!).split('\n');
  expect(head).toMatch(/^10000 Services × 10 +fairlead {2,}nftables$/);
  expect(first?.indexOf('1.50')).toBe(head?.indexOf('fairlead'));
});

describe('Markdown', () => {
  const lines = reportMarkdown(report).split('\n');

  test('says where the figures are from', () => {
    expect(lines.slice(0, 2)).toEqual([
      '2026-01-31, commit abc1234 with uncommitted changes; 2 × Some CPU, Linux 6.18.0, Node 20.20.0;',
      'load before the run 0.3; iptables-legacy; API server 1.30.1 with `--one` `--two=2`.',
    ]);
  });

  test('has a table for each size and one for the goals', () => {
    expect(lines.filter((_, index) => lines[index + 1]?.startsWith('| ---'))).toEqual([
      '| 100 Services × 10 | fairlead |',
      '| 10,000 Services × 10 | fairlead | kube-proxy nftables |',
      '| fairlead at 10,000 Services | figure | goal |  |',
    ]);
    expect(lines).toContain(
      '| longest stall: loading / start / churn ms | 300 / 40.0 / 20.0 | – |',
    );
    expect(lines).toContain('| start, wall time | 1.50 s | 2 s | met |');
  });
});

test('every change of the load replaces one address by an unused one', () => {
  const original = changedAddresses(7, 10, 0);
  expect(original).toEqual(Array.from({ length: 10 }, (_, index) => endpointAddress(7, index)));
  for (const changes of [1, 10, 117, 118]) {
    const changed = changedAddresses(7, 10, changes);
    expect(changed.filter((address) => !original.includes(address))).toHaveLength(1);
    // The same position in the list again, and yet another address.
    expect(changed).not.toEqual(changedAddresses(7, 10, changes + 10));
  }
});
