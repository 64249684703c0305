// SPDX-License-Identifier: Apache-2.0
// When it reads, what it believes, what it does then, and what it tells: on a clock of the test.
import { expect, test } from 'vitest';
import { Verifier } from '../../../../src/instance/verify/verifier.ts';
import type { VerifyView } from '../../../../src/observe/verify-view.ts';
import { verifyText } from '../../../../src/observe/verify-view.ts';
import { createPlanner } from '../../../../src/plan/planner.ts';
import { SETTINGS, service } from '../../plan/support.ts';
import { FakeClock } from '../../source/apiserver/support/fake-clock.ts';

const CONFIRM_MS = 2_000;
const PLAN = createPlanner(SETTINGS).apply([service('web', 1), service('dns', 2)]);

interface World {
  differs: Readonly<Record<string, string>>;
  misplanned: readonly string[];
  /** Instead of a reading. */
  error: Error | undefined;
  hasPlan: boolean;
  cpuMs: number;
  onRepair: () => void;
}

function start(patch: Partial<World> = {}) {
  const world: World = {
    ...{ differs: {}, misplanned: [], error: undefined, hasPlan: true, cpuMs: 0 },
    onRepair: () => undefined,
    ...patch,
  };
  const clock = new FakeClock();
  const done: string[] = [];
  const log = (_fields: unknown, text: string): void => void done.push(`log: ${text}`);
  let cpuMs = 0;
  const verifier = new Verifier({
    ...{ against: 'API server', clock, log: { info: log, warn: log } as never },
    read: async () => {
      done.push('read');
      cpuMs += world.cpuMs;
      if (world.error !== undefined) throw world.error;
      if (!world.hasPlan) return undefined;
      const found = new Map(Object.entries(world.differs)) as never;
      return { plan: PLAN, found, misplanned: new Set(world.misplanned) as never };
    },
    repair: async () => {
      done.push('audit');
      world.onRepair();
    },
    relist: () => {
      done.push('relist');
      world.onRepair();
    },
    cpuMs: () => cpuMs,
  });
  return {
    ...{ verifier, clock, world, done },
    /** Until so many readings have ended, and what follows the last of them. */
    reads: async (count: number): Promise<void> => {
      await expect.poll(() => done.filter((one) => one === 'read').length).toBe(count);
      await new Promise((resolve) => setImmediate(resolve));
    },
    /** One proof when it is asked for, with the pauses that it makes. */
    now: async (): Promise<VerifyView> => {
      let view: VerifyView | undefined;
      void verifier.now().then((seen) => {
        view = seen;
      });
      await expect
        .poll(() => {
          if (clock.delaysMs()[0] === CONFIRM_MS) clock.advance(CONFIRM_MS);
          return view;
        })
        .toBeDefined();
      return view!;
    },
  };
}

test('what is equal is read once, and nothing is told', async () => {
  const { verifier, clock, done, now } = start({});
  expect(clock.delaysMs()).toEqual([]);
  expect(verifyText(verifier.view())).toBe('not verified yet');
  const view = await now();
  expect(done).toEqual(['read']);
  expect(view).toMatchObject({ services: 2, unproven: 0, found: 0, oldestSeconds: 0 });
  expect(verifyText(view)).toBe('2 Services are what the API server says');
  clock.advance(5_000);
  expect(verifier.view().oldestSeconds).toBe(5);
});

test('a difference that the second reading does not find is none', async () => {
  const { verifier, clock, world, done, reads } = start({ differs: { 'default/web': 'x' } });
  const view = verifier.now();
  await reads(1);
  expect(verifyText(verifier.view())).toBe(
    '1 Service is what the API server says; not proven yet: 1',
  );
  clock.advance(CONFIRM_MS - 1);
  expect(done).toEqual(['read']);
  world.differs = {};
  clock.advance(1);
  expect(await view).toMatchObject({ found: 0, unproven: 0, differing: [] });
  expect(done).toEqual(['read', 'read']);
});

test('what another reading finds in another way is none either', async () => {
  const { verifier, clock, world, done, reads } = start({ differs: { 'default/web': 'x' } });
  const view = verifier.now();
  await reads(1);
  world.differs = { 'default/web': 'y' };
  clock.advance(CONFIRM_MS);
  expect(await view).toMatchObject({ found: 0, unproven: 1, differing: [] });
  expect(done).toEqual(['read', 'read']);
});

test('what two readings find is told, written, and proven', async () => {
  const { world, done, now } = start({ differs: { 'default/web': 'is missing' } });
  world.onRepair = () => {
    world.differs = {};
  };
  const view = await now();
  expect(done).toEqual([
    ...['read', 'read'],
    'log: verify: 1 Service is what the API server says; 1 differs: default/web: is missing; found to differ: 1, repaired: 0',
    ...['audit', 'read', 'log: verify: repaired, and proven equal'],
  ]);
  expect(view).toMatchObject({ found: 1, repaired: 1, relisted: 0, differing: [] });
  expect(verifyText(view)).toBe(
    '2 Services are what the API server says; found to differ: 1, repaired: 1',
  );
  expect(await now()).toMatchObject({ found: 0, repaired: 0 });
});

test('if the plan is wrong, the watches list anew and nothing is said to be written', async () => {
  const { world, done, now } = start({
    differs: { 'default/web': 'is missing' },
    misplanned: ['default/web'],
  });
  world.onRepair = () => {
    world.differs = {};
  };
  const view = await now();
  expect(done).not.toContain('audit');
  expect(done.slice(3)).toEqual([
    'log: verify: the plan is not what the API server says, listing anew',
    ...['relist', 'read', 'log: verify: repaired, and proven equal'],
  ]);
  expect(view).toMatchObject({ found: 1, repaired: 1, relisted: 1 });
  expect(verifyText(view)).toContain(
    'planned from objects that the API server does not have: 1, listed anew',
  );
});

test('what cannot be repaired is not said to be, and is told once', async () => {
  const { world, done, now } = start({ differs: { 'default/web': 'x' } });
  world.onRepair = () => {
    throw new Error('no space');
  };
  const view = await now();
  expect(view).toMatchObject({ found: 1, repaired: 0, unproven: 1 });
  expect(verifyText(view)).toContain('1 differs: default/web: x; found to differ: 1, repaired: 0');
  expect(done).toContain('log: what differs cannot be repaired, will retry');
  expect(done.join()).not.toContain('proven equal');
  const told = done.filter((one) => one.includes('is what the API server says')).length;
  await now();
  expect(done.filter((one) => one.includes('is what the API server says'))).toHaveLength(told);
});

test('if a reading fails, nothing is proven, and the time goes on', async () => {
  const { verifier, clock, world, done, now } = start({});
  await now();
  clock.advance(60_000);
  world.error = new Error('the server answers old lists');
  const view = await now();
  expect(view).toMatchObject({ oldestSeconds: 60, problem: 'the server answers old lists' });
  expect(verifyText(view)).toBe('nothing is proven: the server answers old lists');
  await now();
  expect(done.filter((one) => one.startsWith('log'))).toEqual(['log: verify: nothing is proven']);
  world.error = undefined;
  await now();
  expect(verifier.view()).toMatchObject({ oldestSeconds: 0 });
  expect(verifier.view().problem).toBeUndefined();
});

test('without a plan nothing is read, and nothing is said', async () => {
  const { now } = start({ hasPlan: false });
  const view = await now();
  expect([view.verifiedAt, view.problem, view.oldestSeconds]).toEqual([
    ...[undefined, undefined, undefined],
  ]);
});

test('one that is closed while it waits for the second reading leaves no timer', async () => {
  const { verifier, clock, reads } = start({ differs: { 'default/web': 'x' } });
  void verifier.now();
  await reads(1);
  expect(clock.delaysMs()).toEqual([CONFIRM_MS]);
  verifier.close();
  expect(clock.delaysMs()).toEqual([]);
});
