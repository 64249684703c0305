// SPDX-License-Identifier: Apache-2.0
// What counts as an answer as explained, and which endpoints and addresses a replay has.
import { expect, test } from 'vitest';
import { isAs, questionsOf } from '../../../../tools/replay/ask.ts';
import { podAddress, servedBy } from '../../../../tools/replay/network.ts';
import { allStories, captureOf, planFrom } from '../../capture/captures.ts';

const answer = (verdict: 'forward' | 'reject' | 'drop' | 'none', ...backends: string[]) => ({
  ...{ verdict, backends, limits: [] },
});
const two = answer('forward', '10.1.1.5:80', '10.1.1.6:80');

test.each([
  ['a backend of it', two, { '10.1.1.5:80': 3 }, {}, true],
  ['another backend', two, { '10.1.1.7:80': 1, '10.1.1.5:80': 3 }, {}, false],
  ['one failure', two, { '10.1.1.5:80': 3 }, { ECONNREFUSED: 1 }, false],
  ['a refusal', answer('reject'), {}, { ECONNREFUSED: 4 }, true],
  ['silence where it is to be refused', answer('reject'), {}, { TIMEOUT: 4 }, true],
  ['what a hook says where it is to be dropped', answer('drop'), {}, { ETIMEDOUT: 4 }, true],
  ['an answer where it is to be refused', answer('reject'), { x: 1 }, { ECONNREFUSED: 3 }, false],
  ['silence', answer('drop'), {}, { TIMEOUT: 4 }, true],
  ['a refusal where it is to be dropped', answer('drop'), {}, { ECONNREFUSED: 4 }, false],
  ['what is nobody’s', answer('none'), {}, { EHOSTUNREACH: 4 }, true],
  ['what is not served', { ...two, limits: ['not served by bpf'] }, {}, { TIMEOUT: 4 }, true],
] as const)('%s', (_, explained, hits, failures, isFine) => {
  expect(isAs(explained, hits, failures)).toBe(isFine);
});

test('endpoints of this node and of others, each once, and every frontend with an address', () => {
  const [story] = allStories().filter(({ name }) => name.startsWith('102: '));
  const capture = captureOf(story!);
  const plan = planFrom(capture.settings.plan, capture.objects);
  const { here, elsewhere } = servedBy(plan);
  expect(here.length).toBeGreaterThan(0);
  expect(elsewhere.filter((one) => here.includes(one))).toEqual([]);
  const questions = questionsOf(plan, () => '192.0.2.1');
  expect(new Set(questions.map(({ kind }) => kind))).toContain('NodePort');
  const taken = new Set(['10.1.1.2']);
  const found = podAddress(plan, 'IPv4', taken);
  expect(found).toMatch(/^10\.1\.\d+\.\d+$/);
  expect(found).not.toBe('10.1.1.2');
});
