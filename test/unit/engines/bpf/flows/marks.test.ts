// SPDX-License-Identifier: Apache-2.0
// When marks are cleared: not before all programs know the epoch and the sweep has come by every flow in it.
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { expect, test } from 'vitest';
import {
  clearFormer,
  createMarkSweep,
  MARKING_ROUNDS,
} from '../../../../../src/engines/bpf/flows/sweep/marks.ts';
import { createChunkedMmap } from '../../../../../src/engines/bpf/state/chunked-mmap.ts';
import { memoryArray } from '../../../../support/tables/memory.ts';

const LINES = 32;
const LINE = 64;
/** With the line of the epoch. */
const MANY = ((LINES + 1) * LINE) / 16;
/** Of the first round, and between two looks. */
const LOOK_ROUNDS = 60;

function stage(set: number) {
  const marks = memoryArray('fl_mark', LINES + 1, LINE);
  marks.bytes.fill(1, 0, set);
  const grace: { end: () => void; fail: (error: Error) => void }[] = [];
  const sweep = createMarkSweep({
    marks,
    waitGracePeriod: () =>
      new Promise((end, fail) => {
        grace.push({ end, fail });
      }),
  });
  return {
    marks: marks.bytes.subarray(0, LINES * LINE),
    grace,
    epoch: () => marks.bytes[LINES * LINE],
    turns(count: number, isWhole = true): void {
      for (let n = 0; n < count; n += 1) sweep.turn(isWhole);
    },
    /** A grace period ends. */
    async endGrace(): Promise<void> {
      grace.shift()?.end();
      await turnOfLoop();
    },
  };
}
const turnOfLoop = () => new Promise((resolve) => setImmediate(resolve));
const setIn = (marks: Uint8Array): readonly number[] =>
  [...marks.entries()].filter(([, mark]) => mark !== 0).map(([at]) => at);

test('after a grace period, the rest of the round, and whole rounds one after the other', async () => {
  const { marks, epoch, turns, endGrace } = stage(MANY);
  const before = marks.slice();
  turns(1);
  expect(epoch()).toBe(1);
  turns(3 * LOOK_ROUNDS);
  expect([epoch(), marks], 'programs may not know the epoch').toEqual([1, before]);
  await endGrace();
  turns(1);
  turns(MARKING_ROUNDS - 1);
  turns(1, false);
  turns(MARKING_ROUNDS - 1);
  expect(marks, 'a round was not whole').toEqual(before);
  turns(1);
  expect([setIn(marks), epoch()]).toEqual([[], 1]);
});

test('marks of the present epoch stay, in each epoch', async () => {
  const { marks, turns, endGrace } = stage(MANY);
  turns(1);
  await endGrace();
  const met = [0, 5, 6, 63, 64, LINES * LINE - 1];
  for (const at of met) marks[at] = 2;
  turns(1 + MARKING_ROUNDS);
  expect(setIn(marks)).toEqual(met);

  marks.fill(2, 0, MANY + met.length);
  turns(LOOK_ROUNDS);
  await endGrace();
  for (const at of met) marks[at] = 1;
  turns(1 + MARKING_ROUNDS);
  expect(setIn(marks)).toEqual(met);
});

test('few are left alone, and as many as were needed the last time', async () => {
  const few = stage(MANY - 1);
  few.turns(3 * LOOK_ROUNDS);
  expect([few.epoch(), few.grace.length]).toEqual([0, 0]);
  few.turns(1);
  few.marks[MANY] = 1;
  few.turns(LOOK_ROUNDS - 1);
  expect(few.epoch(), 'before the next look').toBe(0);
  few.turns(1);
  expect(few.epoch()).toBe(1);

  const { marks, epoch, turns, endGrace } = stage(2 * MANY);
  turns(1);
  await endGrace();
  marks.fill(2);
  turns(1 + MARKING_ROUNDS);
  turns(3 * LOOK_ROUNDS);
  expect([epoch(), setIn(marks).length]).toEqual([1, marks.length]);
});

test('without a grace period nothing is cleared, and the next look tries again', async () => {
  const { marks, grace, epoch, turns, endGrace } = stage(MANY);
  turns(1);
  grace.shift()?.fail(new Error('no'));
  await turnOfLoop();
  turns(LOOK_ROUNDS);
  expect([epoch(), grace.length, setIn(marks).length]).toEqual([0, 1, MANY]);
  marks.fill(2, 0, 10);
  await endGrace();
  turns(1 + MARKING_ROUNDS);
  expect(setIn(marks).length).toBe(MANY - 10);
});

/** Marks half of all, each pass in the same order, which is as good as random. */
const PROGRAM = `
  const { memory, marks, control, step } = require('node:worker_threads').workerData;
  const bytes = new Uint8Array(memory, 0, marks);
  const passes = new Int32Array(control);
  for (let pass = 0; ; pass += 1) {
    Atomics.wait(passes, 0, pass);
    for (let n = 0; n < marks / 2; n += 1) bytes[(n * step) % marks] = 2;
    Atomics.store(passes, 1, pass + 1);
    Atomics.notify(passes, 1);
  }`;

test('what programs mark meanwhile stays', async () => {
  const PASSES = 300;
  const STEP = 40_503;
  const bytes = 1023 * LINE;
  const memory = new SharedArrayBuffer(bytes + LINE);
  const marks = new Uint8Array(memory, 0, bytes);
  new Uint8Array(memory, bytes)[0] = 1;
  const table = createChunkedMmap(
    { name: 'fl_mark', length: 1024, elementSize: LINE },
    { map: () => memory as unknown as ArrayBuffer, unmap: () => undefined },
  );
  const control = new SharedArrayBuffer(8);
  const passes = new Int32Array(control);
  const workerData = { memory, marks: bytes, control, step: STEP };
  const program = new Worker(PROGRAM, { eval: true, workerData });
  await once(program, 'online');
  const expected = new Uint8Array(bytes);
  for (let n = 0; n < bytes / 2; n += 1) expected[(n * STEP) % bytes] = 2;
  try {
    for (let pass = 1; pass <= PASSES; pass += 1) {
      marks.fill(1);
      Atomics.store(passes, 0, pass);
      Atomics.notify(passes, 0);
      clearFormer(table);
      Atomics.wait(passes, 1, pass - 1);
      clearFormer(table);
      const wrong = marks.reduce((sum, mark, at) => sum + Number(mark !== expected[at]), 0);
      expect(wrong, `pass ${pass}`).toBe(0);
    }
  } finally {
    await program.terminate();
  }
});
