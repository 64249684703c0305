// SPDX-License-Identifier: Apache-2.0
// When an agent follows other Nodes, and when it says that this one takes requests for direct return.
import { beforeEach, expect, test } from 'vitest';
import {
  createDirectReturn,
  type DirectReturn,
} from '../../../src/instance/direct-return/direct-return.ts';
import type { ObjectChange } from '../../../src/model/types.ts';
import type { Plan } from '../../../src/plan/types.ts';
import { FakeClock } from '../source/apiserver/support/fake-clock.ts';

const NAME = 'fairlead.io/direct-return';
let journal: string[];
/** What is kept for `cleanup`. */
let notes: boolean[];
/** What to keep it waits for. */
let slowness: Promise<void> | undefined;
let refusal: string | undefined;
let clock: FakeClock;

const planOf = (wants: boolean, areNodesKnown: boolean, isPeer = false): Plan =>
  ({
    ...(wants && { wantsDirectReturn: true }),
    node: { ...(areNodesKnown && { peers: new Map() }), ...(isPeer && { isPeer }) },
  }) as unknown as Plan;

const own = (annotation?: string, name = 'n1'): ObjectChange => ({
  type: 'put',
  ref: { kind: 'Node', namespace: '', name },
  object: { metadata: { annotations: annotation === undefined ? {} : { [NAME]: annotation } } },
});

const start = (isAble = true, hadFlows = false): DirectReturn =>
  createDirectReturn({
    ...{ nodeName: 'n1', isAble: () => isAble, hadFlows, clock },
    source: {
      followNodes: () => void journal.push('follow'),
      noteAnnotated: async (isAnnotated) => {
        if (isAnnotated) await slowness;
        notes.push(isAnnotated);
      },
      annotateNode: (name, annotations) => {
        journal.push(`${name} ${annotations[NAME]}`);
        return refusal === undefined ? Promise.resolve() : Promise.reject(new Error(refusal));
      },
    },
    log: {
      info: () => undefined,
      warn: (...said: readonly unknown[]) => void journal.push(`warn: ${said[1]}`),
    },
  });

beforeEach(() => {
  journal = [];
  notes = [];
  slowness = undefined;
  refusal = undefined;
  clock = new FakeClock();
});

test('nothing is followed or written as long as nobody asks for it', () => {
  const subject = start();
  subject.arrived([own()]);
  subject.planned(planOf(false, false));
  subject.synced(planOf(false, false), true);
  expect(journal).toEqual([]);
});

test('the annotation is written once, when all nodes are known and programmed', () => {
  const subject = start();
  subject.arrived([own()]);
  subject.planned(planOf(true, false));
  subject.planned(planOf(true, false));
  subject.synced(planOf(true, false), true);
  expect(journal).toEqual(['follow']);
  subject.synced(planOf(true, true), false);
  expect(journal).toEqual(['follow']);
  subject.synced(planOf(true, true), true);
  subject.synced(planOf(true, true), true);
  expect(journal).toEqual(['follow', 'n1 geneve/1']);
});

test('it is not written again if it is there, stays when nobody asks any more, and comes back', async () => {
  const subject = start();
  subject.arrived([own('geneve/1'), own(undefined, 'n2')]);
  subject.planned(planOf(true, true));
  subject.synced(planOf(true, true), true);
  subject.planned(planOf(false, true));
  subject.synced(planOf(false, true), true);
  expect(journal).toEqual(['follow']);
  subject.arrived([own()]);
  expect(journal).toEqual(['follow', 'n1 geneve/1']);
});

test('a later agent follows other nodes as long as they may send, also when nobody asks any more', () => {
  const subject = start();
  subject.arrived([own('geneve/1')]);
  subject.planned(planOf(false, false, true));
  subject.synced(planOf(false, false, true), true);
  subject.planned(planOf(false, true, true));
  subject.synced(planOf(false, true, true), true);
  expect(journal).toEqual(['follow']);
  subject.arrived([own()]);
  expect(journal).toEqual(['follow', 'n1 geneve/1']);
});

test('or as flows of an earlier one may exist; that alone is nothing to tell others', () => {
  const subject = start(true, true);
  subject.arrived([own()]);
  subject.planned(planOf(false, false));
  subject.synced(planOf(false, true), true);
  expect(journal).toEqual(['follow']);
  subject.planned(planOf(true, true));
  subject.synced(planOf(true, true), true);
  expect(journal).toEqual(['follow', 'n1 geneve/1']);
  start(false, true).planned(planOf(false, false, true));
  expect(journal).toHaveLength(2);
});

test('a dataplane that cannot do it follows nothing, and takes away what an earlier one has written', () => {
  const subject = start(false);
  subject.planned(planOf(true, false));
  subject.arrived([own()]);
  expect(journal).toEqual([]);
  subject.arrived([own('geneve/1')]);
  expect(journal).toEqual(['n1 null']);
});

test('a refusal is a warning that says what to do, and is retried', async () => {
  refusal = 'HTTP 403: nodes "n1" is forbidden';
  const subject = start();
  subject.arrived([own()]);
  subject.planned(planOf(true, true));
  subject.synced(planOf(true, true), true);
  await new Promise(setImmediate);
  const [problem] = subject.problems();
  expect(problem).toMatchObject({ isWarning: true });
  expect(problem?.reason).toMatch(/n1 could not be annotated .*403.*kubectl annotate node n1 /);
  expect(journal.filter((line) => line.startsWith('warn'))).toHaveLength(1);
  refusal = undefined;
  clock.advance(300_000);
  await new Promise(setImmediate);
  expect(journal.at(-1)).toBe('n1 geneve/1');
  expect(subject.problems()).toEqual([]);
});

test('what is kept for cleanup is whether the annotation is there', async () => {
  const subject = start();
  subject.planned(planOf(true, true));
  subject.synced(planOf(true, true), true);
  subject.arrived([own()]);
  expect(notes).toEqual([]);
  await new Promise(setImmediate);
  expect(notes).toEqual([true]);
  subject.arrived([own('geneve/1')]);
  const next = start();
  next.arrived([own('geneve/1')]);
  await new Promise(setImmediate);
  expect(notes).toEqual([true, true]);
  const unable = start(false);
  unable.arrived([own('geneve/1')]);
  await new Promise(setImmediate);
  expect(notes).toEqual([true, true, true, false]);
});

test('what is kept is what was so last, however long it takes to keep it', async () => {
  let isKept = (): void => undefined;
  slowness = new Promise((resolve) => {
    isKept = resolve;
  });
  const unable = start(false);
  unable.arrived([own('geneve/1')]);
  unable.arrived([own()]);
  await new Promise(setImmediate);
  isKept();
  await new Promise(setImmediate);
  expect(notes).toEqual([true, false]);
});

test('what is refused is not kept', async () => {
  refusal = 'HTTP 403';
  const subject = start();
  subject.arrived([own()]);
  subject.planned(planOf(true, true));
  subject.synced(planOf(true, true), true);
  await new Promise(setImmediate);
  expect(notes).toEqual([]);
});
