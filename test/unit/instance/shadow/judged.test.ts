// SPDX-License-Identifier: Apache-2.0
// Which differences count, by what the reading before has found.
import { expect, test } from 'vitest';
import type { Answer } from '../../../../src/compare/answer.ts';
import type { Difference } from '../../../../src/compare/compare.ts';
import { type Compared, judge } from '../../../../src/instance/shadow/judged.ts';

const answer = (verdict: Answer['verdict']): Answer => ({
  ...{ verdict, backends: [], affinitySeconds: 0, because: [] },
});

const difference = (service: string | undefined, over: Partial<Difference> = {}): Difference => ({
  family: 'IPv4',
  destination: { address: '10.96.0.10', port: 80, protocol: 'TCP' },
  claim:
    service === undefined
      ? undefined
      : { service, isContested: false, endpoints: new Set<string>(), rejected: [] },
  clients: [],
  part: 'verdict',
  answers: [answer('reject'), answer('drop')],
  ...over,
});

const reasonsOf = (differences: readonly Difference[]): ReadonlyMap<string, number> => {
  const reasons = new Map<string, number>();
  for (const { reason } of differences)
    if (reason !== undefined) reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
  return reasons;
};

const compared = (...differences: readonly Difference[]): Compared => ({
  rules: { family: 'IPv4', name: 'nftables' },
  comparison: {
    ...{ destinations: 1, classes: 1, differences, reasons: reasonsOf(differences) },
    unread: [
      { text: 'a rule of its own', isForeign: false },
      { text: 'a rule of others', isForeign: true },
    ],
  },
});

const WHAT = '10.96.0.10:80/TCP verdict: plan reject, nftables drop';

test('an unexplained difference counts when the next reading has it, too', () => {
  const found = [compared(difference('default/web'))];
  const first = judge(found, new Set());
  expect(first).toMatchObject({ isOpen: true, differing: [], differences: { unexplained: 0 } });
  const second = judge(found, first.keys);
  expect(second).toMatchObject({
    isOpen: false,
    differing: [{ service: 'default/web', what: WHAT }],
    differences: { unexplained: 1 },
  });
  expect(judge([compared()], second.keys)).toMatchObject({ isOpen: false, differing: [] });
});

test('where the rules do something else by then, it is another one', () => {
  const first = judge([compared(difference('default/web'))], new Set());
  const other = difference('default/web', { answers: [answer('reject'), answer('none')] });
  expect(judge([compared(other)], first.keys)).toMatchObject({ isOpen: true, differing: [] });
});

test('where a Service differs already, another answer keeps it differing', () => {
  const first = judge([compared(difference('default/web'))], new Set());
  const second = judge([compared(difference('default/web'))], first.keys);
  const other = difference('default/web', { answers: [answer('reject'), answer('none')] });
  const third = judge([compared(other)], second.keys);
  expect(third).toMatchObject({ isOpen: false, differing: [{ service: 'default/web' }] });
});

test('a rule of somebody else bars no start, and makes no Service differ that the plan does not have there', () => {
  const foreign = { reason: 'foreign-rule' };
  const served = difference('default/web', foreign);
  const passes = difference('default/api', {
    ...foreign,
    answers: [answer('none'), answer('drop')],
  });
  const found = [compared(served, passes, difference(undefined, foreign))];
  const first = judge(found, new Set());
  expect(judge(found, first.keys)).toMatchObject({
    ...{ isOpen: false, barring: [], differing: [{ service: 'default/web' }] },
    differences: { unexplained: 1, 'foreign-rule': 2 },
  });
});

test('a known difference counts at once, and makes no Service differ', () => {
  const known = difference('default/web', { reason: 'martian-guard' });
  expect(judge([compared(known, known)], new Set())).toMatchObject({
    ...{ isOpen: false, differing: [] },
    differences: { unexplained: 0, 'martian-guard': 2 },
  });
});

test('a rule of others that decides is not explained, and is named', () => {
  const foreign = [compared(difference('default/web', { reason: 'foreign-rule' }))];
  const { keys } = judge(foreign, new Set());
  expect(judge(foreign, keys)).toMatchObject({
    differing: [{ what: expect.stringContaining('verdict (foreign-rule): plan') }],
    differences: { unexplained: 1 },
  });
});

test('each Service is named once, sorted, and what is of none as well', () => {
  const found = [
    compared(difference('default/web'), difference('default/web', { part: 'backends' })),
    compared(difference('a/b'), difference(undefined)),
  ];
  const { keys } = judge(found, new Set());
  const judged = judge(found, keys);
  expect(judged.differing.map(({ service }) => service)).toEqual([
    ...['a/b', 'default/web', 'no Service'],
  ]);
  expect(judged.differences).toEqual({ unexplained: 4 });
});

test('rules of the proxy that could not be read are named', () => {
  expect(judge([compared()], new Set()).unread).toEqual(['a rule of its own']);
});
