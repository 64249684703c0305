// SPDX-License-Identifier: Apache-2.0
// From one engine to the other: in which order, and what happens after a failure or a kill.
import { describe, expect, test } from 'vitest';
import type { Predecessor, PredecessorFacts } from '../../../../src/engines/predecessor.ts';
import { createHandOver, nextStep } from '../../../../src/instance/hand-over/hand-over.ts';
import { until } from '../../../support/until.ts';

const facts = (change: Partial<PredecessorFacts> = {}): PredecessorFacts => ({
  ...{ isServing: true, isLeft: true, connections: undefined },
  ...change,
});

test.each([
  { name: 'nothing was left', isComplete: true, facts: facts({ isLeft: false }), step: 'done' },
  { name: 'not all is programmed yet', isComplete: false, facts: facts(), step: 'wait' },
  { name: 'both serve', isComplete: true, facts: facts(), step: 'stop serving' },
  {
    name: 'connections need it',
    isComplete: true,
    facts: facts({ isServing: false, connections: 2 }),
    step: 'keep',
  },
  {
    name: 'nobody knows whether connections need it',
    isComplete: true,
    facts: facts({ isServing: false }),
    step: 'keep',
  },
  {
    name: 'its last connection has ended',
    isComplete: true,
    facts: facts({ isServing: false, connections: 0 }),
    step: 'remove',
  },
] as const)('$name: $step', ({ isComplete, facts: found, step }) => {
  expect(nextStep(isComplete, found)).toBe(step);
});

describe('an engine is handed over', () => {
  /** An engine in the state that the last step has left it in, and what was done to it. */
  function predecessor(state: PredecessorFacts, failures = 0, isLeft = true) {
    const done: string[] = [];
    let now = state;
    let left = failures;
    const engine: Predecessor = {
      engine: 'bpf',
      look: async () => now,
      held: async () => [],
      stopServing: async () => {
        if (left-- > 0) throw new Error('held by another');
        done.push('stop serving');
        now = facts({ isServing: false, isLeft, connections: 1 });
      },
      remove: async () => {
        done.push('remove');
        now = facts({ isServing: false, isLeft: false, connections: 0 });
      },
    };
    const end = (): void => {
      now = facts({ isServing: false, connections: 0 });
    };
    return { engine, done, end };
  }
  const logged: string[] = [];
  const write = (fields: unknown, text: string): void =>
    void logged.push(`${text} ${JSON.stringify(fields)}`);
  const log = { info: write, warn: write } as Parameters<typeof createHandOver>[1];
  const FULL = { isFull: true, isComplete: true };

  test('not before everything is programmed, and removed when its connections have ended', async () => {
    const { engine, done, end } = predecessor(facts());
    const handOver = createHandOver(engine, log, 1);
    handOver.synced({ isFull: true, isComplete: false });
    handOver.synced({ isFull: true, isComplete: false });
    expect(done).toEqual([]);
    handOver.synced({ isFull: false, isComplete: true });
    await until(() => done.length > 0, 'the first step');
    expect(done).toEqual(['stop serving']);
    end();
    await until(() => done.length > 1, 'the second step');
    expect(done).toEqual(['stop serving', 'remove']);
    handOver.close();
  });

  test('session affinity is handed over before it ceases to serve, once', async () => {
    const { engine, done, end } = predecessor(facts());
    const handAffinity = async (): Promise<number> => done.push('hand affinity');
    const handOver = createHandOver({ ...engine, handAffinity }, log, 1);
    handOver.synced(FULL);
    handOver.synced(FULL);
    await until(() => done.length > 1, 'two steps');
    expect(done).toEqual(['hand affinity', 'stop serving']);
    end();
    await until(() => done.length > 2, 'the last step');
    expect(done.at(-1)).toBe('remove');
    handOver.close();
  });

  test('session affinity that cannot be handed over holds nothing up', async () => {
    const { engine, done } = predecessor(facts());
    const handAffinity = () => Promise.reject(new Error('EACCES'));
    const handOver = createHandOver({ ...engine, handAffinity }, log, 1);
    handOver.synced(FULL);
    await until(() => done.length > 0, 'the first step');
    expect(logged).toContain(
      'session affinity not adopted, clients get endpoints anew {"engine":"bpf","reason":"EACCES"}',
    );
    handOver.close();
  });

  test('what an agent that was killed has begun is completed', async () => {
    const { engine, done } = predecessor(facts({ isServing: false, connections: 0 }));
    createHandOver(engine, log, 1).synced(FULL);
    await until(() => done.length > 0, 'a step');
    expect(done).toEqual(['remove']);
  });

  test('a step that fails is a warning, and is retried', async () => {
    const { engine, done } = predecessor(facts(), 2);
    const handOver = createHandOver(engine, log, 1);
    handOver.synced(FULL);
    await until(() => done.length > 0, 'the third try');
    expect(logged.filter((line) => line.includes('held by another'))).toHaveLength(2);
    handOver.close();
  });

  test('after a look that fails, too, it is said that connections keep it, once', async () => {
    const { engine, done } = predecessor(facts());
    const looks = [0];
    const look = async (): Promise<PredecessorFacts> => {
      looks[0]! += 1;
      if (looks[0] === 2) throw new Error('EAGAIN');
      return engine.look();
    };
    const kept = (): number =>
      logged.filter((line) => line.startsWith('keeping the other engine')).length;
    const before = kept();
    const handOver = createHandOver({ ...engine, look }, log, 1);
    handOver.synced(FULL);
    await until(() => looks[0]! > 5, 'further looks');
    handOver.close();
    expect([done, kept() - before]).toEqual([['stop serving'], 1]);
  });

  test('to cease to serve is completed if it fails half way', async () => {
    const { engine, done } = predecessor(facts());
    const stopServing = async (): Promise<void> => {
      await engine.stopServing();
      if (done.length === 1) throw new Error('half');
    };
    const handOver = createHandOver({ ...engine, stopServing }, log, 1);
    handOver.synced(FULL);
    await until(() => done.length > 1, 'the second try');
    expect(done).toEqual(['stop serving', 'stop serving']);
    handOver.close();
  });

  test('one of which nothing is left once it has stopped is told as removed', async () => {
    const { engine, done } = predecessor(facts(), 0, false);
    const handOver = createHandOver(engine, log, 1);
    logged.length = 0;
    handOver.synced(FULL);
    await until(() => logged.some((line) => line.startsWith('the other engine is removed')), 'it');
    expect(done).toEqual(['stop serving']);
    handOver.close();
  });

  test('nothing happens after the agent has stopped', async () => {
    const { engine, done } = predecessor(facts());
    const handOver = createHandOver(engine, log, 1);
    handOver.close();
    handOver.synced(FULL);
    expect(done).toEqual([]);
  });
});
