// SPDX-License-Identifier: Apache-2.0
// A reader of one frontend never gets another's value and never misses it, while a writer changes it and a
// second frontend in its bucket, and adds and removes a third. Since Linux 6.1 a freed hash element is reused by
// the next update at once, so a control that replaces values must show wrong or missing reads: otherwise the test
// proves nothing. `PICKS=100000000 npx vitest run --project bpf test/integration/bpf/recycled.test.ts` runs longer.
import { mkdtempSync, readFileSync, rmdirSync, unlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { expect, test } from 'vitest';
import { TABLE_MAPS } from '../../../src/engines/bpf/kernel/maps/kernel.ts';
import { encodeFrontendKey } from '../../../src/engines/bpf/layout/layout.ts';
import { type BpfObject, mountBpffs, openObject, unmount } from '../../../src/sys/native.ts';
import { ANY_NUMBER_MS } from '../../support/random.ts';
import { recycleObject } from './support/drive.ts';

const PICKS = Number(process.env['PICKS'] ?? 4_000_000);
const PICKS_PER_CALL = 250_000;
const PINNED = [...TABLE_MAPS, 'fl_replaced', 'fl_prealloc'];
/** Few buckets, so that frontends share them. */
const BUCKETS = 8;
const A = { family: 'IPv4', address: '10.96.0.1', port: 80, protocol: 'TCP' } as const;

/** Each round has its own maps, so that other frontends share a bucket each time. */
const ROUNDS = 8;
/** However seldom a busy machine lets the writer run. */
const CHANGES_PER_ROUND = 150;

let object: BpfObject;
let pins: string;
function open(): void {
  pins = mkdtempSync(join(tmpdir(), 'fairlead-recycled-'));
  mountBpffs(pins);
  object = openObject(readFileSync(recycleObject), { name: 'recycle' });
  for (const name of object.maps) {
    if (/^fl_(be|fe|slot)|fl_frontend$/.test(name)) object.setMaxEntries(name, 8192);
  }
  object.setMaxEntries('fl_frontend4', BUCKETS);
  object.load();
  for (const name of PINNED) object.map(name).pin(join(pins, name));
}
function close(): void {
  object.close();
  for (const name of PINNED) unlinkSync(join(pins, name));
  unmount(pins);
  rmdirSync(pins);
}

interface Result {
  readonly picks: number;
  readonly wrong: number;
  readonly missed: number;
  readonly changes: number;
}

/** Reads with `program` at least `picks` times beside a writer, and while that makes so many changes, or until a read is not clean and `endsEarly`. */
async function readWhile(
  program: string,
  mode: string,
  picks: number,
  endsEarly: boolean,
): Promise<Result> {
  const control = new SharedArrayBuffer(8);
  const shared = new Int32Array(control);
  const worker = new Worker(new URL('./support/recycle-writer.mjs', import.meta.url), {
    workerData: { pins, mode, control },
  });
  const died = new Promise<never>((_, reject) => worker.once('error', reject));
  const ended = new Promise<void>((resolve) => worker.once('exit', () => resolve()));
  const reading = new BigUint64Array(object.map('fl_reading').mmap());
  const dataIn = new Uint8Array(64);
  dataIn.set(encodeFrontendKey(A));
  const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
  try {
    while (Atomics.load(shared, 1) < 3) await Promise.race([turn(), died]);
    const isDone = (): boolean =>
      reading[0]! >= BigInt(picks) && Atomics.load(shared, 1) >= CHANGES_PER_ROUND;
    while (!isDone() && !(endsEarly && reading[1]! + reading[2]! > 0n)) {
      object.program(program).testRun({ dataIn, repeat: PICKS_PER_CALL });
      await Promise.race([turn(), died]);
    }
  } finally {
    Atomics.store(shared, 0, 1);
    await Promise.race([ended, died]);
  }
  const [read, wrong, missed] = Array.from(reading, Number) as [number, number, number];
  return { picks: read, wrong, missed, changes: shared[1]! };
}

interface Reading {
  readonly program: string;
  readonly mode: string;
  readonly rounds?: number;
  /** In each round. */
  readonly picks?: number;
  /** Ends with the first read that is wrong or missing. */
  readonly endsEarly?: boolean;
}

async function readInRounds(reading: Reading): Promise<Result> {
  const { program, mode, rounds = ROUNDS, picks = PICKS / ROUNDS, endsEarly = false } = reading;
  let sum: Result = { picks: 0, wrong: 0, missed: 0, changes: 0 };
  for (let round = 0; round < rounds; round += 1) {
    open();
    try {
      const result = await readWhile(program, mode, picks, endsEarly);
      sum = {
        picks: sum.picks + result.picks,
        wrong: sum.wrong + result.wrong,
        missed: sum.missed + result.missed,
        changes: sum.changes + result.changes,
      };
    } finally {
      close();
    }
    if (endsEarly && sum.wrong + sum.missed > 0) break;
  }
  process.stdout.write(`${program} beside ${mode}: ${JSON.stringify(sum)}\n`);
  return sum;
}

test('a frontend is never read wrong and never missed', { timeout: ANY_NUMBER_MS }, async () => {
  const result = await readInRounds({ program: 'fl_read_select', mode: 'sync' });
  expect(result).toMatchObject({ wrong: 0, missed: 0 });
  expect(result.picks).toBeGreaterThanOrEqual(PICKS);
});

/** Wrong reads occur only in some rounds, once in some hundred thousand to some million reads. */
const CONTROL_ROUNDS = 40;
const CONTROL_PICKS = 5_000_000;

test('control: replaced values are detected', { timeout: ANY_NUMBER_MS }, async () => {
  const result = await readInRounds({
    ...{ program: 'fl_read_replace', mode: 'fl_replaced' },
    ...(process.env['PICKS'] === undefined
      ? { rounds: CONTROL_ROUNDS, picks: CONTROL_PICKS, endsEarly: true }
      : {}),
  });
  expect(result.wrong + result.missed).toBeGreaterThan(0);
});

test.skipIf(process.env['PICKS'] === undefined)(
  'for comparison: preallocated, and with the key compared last',
  { timeout: ANY_NUMBER_MS },
  async () => {
    await readInRounds({ program: 'fl_read_prealloc', mode: 'fl_prealloc' });
    await readInRounds({ program: 'fl_read_twice', mode: 'fl_replaced' });
  },
);
