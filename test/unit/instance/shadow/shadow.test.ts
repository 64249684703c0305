// SPDX-License-Identifier: Apache-2.0
// The work of an agent with --shadow on a clock of the test, with rules that kube-proxy has written, and with a wrong one among them.
import { expect, test } from 'vitest';
import type { FoundRules } from '../../../../src/instance/shadow/read-rules.ts';
import { Shadow } from '../../../../src/instance/shadow/shadow.ts';
import type { ShadowView } from '../../../../src/observe/shadow-view.ts';
import { planOf, programOf, recordedText } from '../../compare/recorded.ts';
import { FakeClock } from '../../source/apiserver/support/fake-clock.ts';

const WAIT_MS = 10_000;
const LOOK_MS = 30_000;
const plan = planOf('ranges');
const TEXT = recordedText('ranges', 'iptables');
/** One backend is another one. */
const WRONG = TEXT.replace(/--to-destination \S+/, '--to-destination 10.1.9.9:1');

const rulesOf = (text: string, name = 'iptables-legacy'): FoundRules => ({
  ...{ kind: 'iptables', name, family: 'IPv4' },
  program: programOf('iptables', text),
});

function start(first: readonly FoundRules[] | Error, hasPlan = true) {
  const clock = new FakeClock();
  const views: ShadowView[] = [];
  const logged: string[] = [];
  const recorded: number[] = [];
  const log = (_fields: unknown, text: string): void => void logged.push(text);
  let [rules, version] = [first, 'a'];
  const shadow = new Shadow({
    waitMs: WAIT_MS,
    plans: () => (hasPlan ? { plan, plain: plan } : undefined),
    addresses: () => plan.node.localAddresses,
    readRules: async () => {
      if (rules instanceof Error) throw rules;
      return rules;
    },
    rulesVersion: async () => version,
    ...{ clock, log: { info: log, warn: log } as never },
    onView: (view) => void views.push(view),
    onProven: (barring) => void recorded.push(barring.length),
  });
  return {
    ...{ shadow, clock, views, logged, recorded },
    /** @returns the view that comes then */
    pass: async (ms: number): Promise<ShadowView> => {
      const count = views.length;
      clock.advance(ms);
      await expect.poll(() => views.length).toBeGreaterThan(count);
      return views.at(-1)!;
    },
    become: (next: readonly FoundRules[] | Error, nextVersion: string) => {
      [rules, version] = [next, nextVersion];
    },
  };
}

test('nothing is compared before there is a plan, nor before the rules had time to follow', async () => {
  const { shadow, clock, views, pass } = start([rulesOf(TEXT)]);
  clock.advance(WAIT_MS - 1);
  shadow.planned();
  clock.advance(WAIT_MS - 1);
  expect(views).toEqual([]);
  expect(shadow.view()).toMatchObject({ isDue: true, rules: [] });
  const view = await pass(1);
  expect(view).toMatchObject({
    ...{ isDue: false, differing: [], unread: [], rules: ['IPv4 iptables-legacy'] },
    comparedAt: expect.stringMatching(/^1970/),
    services: plan.services.size,
  });
  shadow.close();
  expect(clock.delaysMs()).toEqual([]);
});

test('rules that are read before there is a plan prove nothing', async () => {
  const { shadow, logged, pass } = start([rulesOf(TEXT)], false);
  await pass(LOOK_MS);
  const view = await pass(WAIT_MS);
  expect(view).toMatchObject({ isDue: false, rules: [] });
  expect(view.comparedAt).toBeUndefined();
  expect(logged).toEqual([]);
  shadow.close();
});

test('a wrong rule is told when it was read twice, once, and no more when it is gone', async () => {
  const { shadow, logged, recorded, pass, become } = start([rulesOf(WRONG)]);
  shadow.planned();
  expect(await pass(WAIT_MS)).toMatchObject({ isDue: true, isOpen: true, differing: [] });
  expect([logged, recorded]).toEqual([[], []]);
  const found = await pass(WAIT_MS);
  expect(found).toMatchObject({
    isDue: false,
    differing: [{ what: expect.stringMatching(/backends: .*10\.1\.9\.9:1/) }],
  });
  expect(logged).toEqual([expect.stringMatching(/^shadow: .*1 differs/)]);
  become([rulesOf(TEXT)], 'b');
  await pass(LOOK_MS);
  expect(await pass(WAIT_MS)).toMatchObject({ isDue: false, differing: [] });
  expect(logged).toHaveLength(2);
  expect(recorded).toEqual([1, 0]);
  shadow.close();
});

test('a proxy that was only late is never told', async () => {
  const { shadow, logged, pass, become } = start([rulesOf(WRONG)]);
  shadow.planned();
  await pass(WAIT_MS);
  become([rulesOf(TEXT)], 'b');
  expect(await pass(WAIT_MS)).toMatchObject({ isDue: false, differing: [] });
  expect(logged).toEqual([expect.stringContaining('none differs')]);
  shadow.close();
});

test('what was found stays recorded where nothing can be compared any more', async () => {
  const { shadow, recorded, pass, become } = start([rulesOf(WRONG)]);
  shadow.planned();
  await pass(WAIT_MS);
  await pass(WAIT_MS);
  become([], 'b');
  await pass(LOOK_MS);
  expect((await pass(WAIT_MS)).problem).toContain('no rules of kube-proxy');
  expect(recorded).toEqual([1]);
  shadow.close();
});

test('rules that have not changed are not compared again', async () => {
  const { shadow, views, pass } = start([rulesOf(TEXT)]);
  shadow.planned();
  const { comparedAt } = await pass(WAIT_MS);
  const looked = await pass(LOOK_MS);
  expect(looked).toMatchObject({ comparedAt, isDue: false });
  expect(views).toHaveLength(2);
  shadow.close();
});

test.each([
  ['no rules', [], 'this node has no rules of kube-proxy'],
  ['rules of fairlead alone', [rulesOf(TEXT, 'fairlead-iptables-nft')], 'has no rules of'],
  [
    'rules of two modes',
    [rulesOf(TEXT), rulesOf(TEXT, 'iptables-nft')],
    'rules of kube-proxy in iptables-legacy and iptables-nft',
  ],
  [
    'rules of fairlead as well',
    [rulesOf(TEXT), rulesOf(TEXT, 'fairlead-iptables-nft')],
    'fairlead-iptables-nft still has rules on this node, from an agent that has served: run `fairlead cleanup`',
  ],
  [
    'rules of another IP family alone',
    [{ ...rulesOf(TEXT), family: 'IPv6' as const }],
    'Services have IPv4, and kube-proxy has no rules of it on this node',
  ],
  ['rules that cannot be read', new Error('no iptables'), 'cannot be compared: no iptables'],
])('%s: it says so, and looks again', async (_, rules, problem) => {
  const { shadow, pass, become } = start(rules);
  shadow.planned();
  const view = await pass(WAIT_MS);
  expect(view.problem).toContain(problem);
  expect(view.comparedAt).toBeUndefined();
  become([rulesOf(TEXT)], 'a');
  await pass(LOOK_MS);
  const later = await pass(WAIT_MS);
  expect(later.problem).toBeUndefined();
  expect(later.comparedAt).toBeDefined();
  shadow.close();
});
