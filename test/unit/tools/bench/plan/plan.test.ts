// SPDX-License-Identifier: Apache-2.0
// What a run does, in which order, and how long it says that it will take.
import { expect, test } from 'vitest';
import { isExpendable, planOf, type Step } from '../../../../../tools/bench/plan/plan.ts';
import { FULL, QUICK, type RunSettings } from '../../../../../tools/bench/plan/settings.ts';
import { durationText, secondsLeft } from '../../../../../tools/bench/plan/time-left.ts';
import { COLUMNS } from '../../../../../tools/bench/report/types.ts';

const small: RunSettings = {
  ...{ ...QUICK, columns: ['none', 'fairlead-bpf', 'kube-proxy-iptables'] },
  ...{ services: [100, 1_000], turns: 2, rounds: 2, rollTurns: 1 },
};

const text = ({ kind, services, ...more }: Step): string =>
  [kind, services, ...Object.values(more)].join(' ');

test('proxies have their turns in rotating order, traffic comes when all have been started', () => {
  expect(planOf(small).map(text)).toEqual([
    ...['grow 100', 'roll 100 fairlead-bpf', 'roll 100 kube-proxy-iptables'],
    ...['turn 100 fairlead-bpf', 'turn 100 kube-proxy-iptables'],
    ...['turn 100 kube-proxy-iptables', 'turn 100 fairlead-bpf'],
    ...['warm-up 100 0', 'traffic 100 1', 'traffic 100 2'],
    ...['grow 1000', 'turn 1000 fairlead-bpf', 'turn 1000 kube-proxy-iptables'],
    ...['turn 1000 kube-proxy-iptables', 'turn 1000 fairlead-bpf'],
    ...['warm-up 1000 0', 'traffic 1000 1', 'traffic 1000 2'],
  ]);
});

test('each repetition has every proxy once, and no proxy is always the first', () => {
  const steps = planOf({ ...FULL, columns: COLUMNS }).filter(({ kind }) => kind === 'turn');
  const ofSize = steps.filter(({ services }) => services === 100).map(text);
  const count = COLUMNS.filter((name) => name !== 'none').length;
  const rounds = Array.from({ length: FULL.turns }, (_, at) =>
    ofSize.slice(count * at, count * at + count),
  );
  expect(rounds.map((round) => new Set(round).size)).toEqual(rounds.map(() => count));
  expect(new Set(rounds.map(([first]) => first)).size).toBe(count);
});

test('a full run has enough repetitions for a confidence of 95 %', () => {
  for (const count of [FULL.rounds, FULL.turns, FULL.rollTurns]) {
    expect(count).toBeGreaterThanOrEqual(6);
  }
  expect(FULL.services).toEqual([100, 1_000, 5_000, 10_000]);
});

test('three rounds of traffic are never left out, nor is anything else', () => {
  const left = planOf({ ...small, rounds: 5 }).filter((step) => !isExpendable(step));
  expect(left.filter(({ kind }) => kind === 'traffic').map(text)).toEqual(
    [100, 1_000].flatMap((size) => [1, 2, 3].map((round) => `traffic ${size} ${round}`)),
  );
  expect(left.filter(({ kind }) => kind === 'turn')).toHaveLength(8);
});

test('the time left is that of steps like these, of the same column where one is known', () => {
  const turn = (column: 'fairlead-bpf' | 'kube-proxy-iptables'): Step => ({
    ...{ kind: 'turn', services: 1, column },
  });
  const rest = [turn('fairlead-bpf'), turn('kube-proxy-iptables')];
  expect(secondsLeft(rest, [])).toBe(18);
  const done = [{ step: turn('fairlead-bpf'), seconds: 2 }];
  expect(secondsLeft(rest, done)).toBe(4);
  expect(secondsLeft(rest, [...done, { step: turn('kube-proxy-iptables'), seconds: 7 }])).toBe(9);
});

test.each([
  [0, '0 s'],
  [59.4, '59 s'],
  [60, '1 min 0 s'],
  [754, '12 min 34 s'],
])('%d s is %s', (seconds, expected) => expect(durationText(seconds)).toBe(expected));
