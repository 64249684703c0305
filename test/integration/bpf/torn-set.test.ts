// SPDX-License-Identifier: Apache-2.0
// No selection ever sees half an update: while a writer replaces a set of a thousand backends as fast as it
// can, each of 20 million selections is from a single epoch that was current. As a control, the same
// selections beside a writer that updates in place must show torn sets.
import { mkdtempSync, rmdirSync, unlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { mountBpffs, unmount } from '../../../src/sys/native.ts';
import { Drive, decodeChoice, encodeRequest } from './support/drive.ts';

const PICKS = 20_000_000;
const PICKS_PER_CALL = 500_000;
const addon =
  process.env['FAIRLEAD_ADDON'] ??
  fileURLToPath(new URL('../../../build/native/fairlead.node', import.meta.url));
const PINNED = ['fl_frontend', 'fl_backend4', 'fl_slot_block', 'fl_watch'];

let drive: Drive;
let pins: string;
beforeEach(() => {
  pins = mkdtempSync(join(tmpdir(), 'fairlead-torn-'));
  mountBpffs(pins);
  drive = new Drive();
  drive.putFrontend({ address: '10.96.0.10', port: 80 });
  for (const name of PINNED) drive.object.map(name).pin(join(pins, name));
});
afterEach(() => {
  drive?.close();
  for (const name of PINNED) unlinkSync(join(pins, name));
  unmount(pins);
  rmdirSync(pins);
});

interface Result {
  readonly picks: number;
  readonly violations: number;
  readonly failures: number;
  readonly epochs: number;
  readonly gracePeriods: number;
  readonly sample: string;
}

/** Picks until `picks` are made or `isEnough` says so, while a worker writes in the given mode. */
async function pickWhile(
  mode: 'correct' | 'in-place',
  picks: number,
  isEnough: (watch: BigUint64Array) => boolean,
): Promise<Result> {
  const control = new SharedArrayBuffer(12);
  const shared = new Int32Array(control);
  const worker = new Worker(new URL('./support/torn-writer.mjs', import.meta.url), {
    workerData: { addon, pins, mode, control },
  });
  const died = new Promise<never>((_, reject) => worker.once('error', reject));
  const ended = new Promise<void>((resolve) => worker.once('exit', () => resolve()));
  const bytes = drive.object.map('fl_watch').mmap();
  const watch = new BigUint64Array(bytes);
  const dataIn = encodeRequest({ to: '10.96.0.10', port: 80 });
  const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
  try {
    while (Atomics.load(shared, 1) === 0) await Promise.race([turn(), died]);
    while (watch[2]! < BigInt(picks) && !isEnough(watch)) {
      drive.object.program('fl_drive_watch').testRun({ dataIn, repeat: PICKS_PER_CALL });
      await Promise.race([turn(), died]);
    }
  } finally {
    Atomics.store(shared, 0, 1);
    await Promise.race([ended, died]);
  }
  const seen = decodeChoice(new Uint8Array(bytes), 56);
  return {
    picks: Number(watch[2]),
    violations: Number(watch[3]),
    failures: Number(watch[4]),
    epochs: shared[1]!,
    gracePeriods: shared[2]!,
    sample: watch[3] ? `${JSON.stringify(seen)} between ${watch[5]} and ${watch[6]}` : 'none',
  };
}

const print = (what: string, result: Result): void => {
  process.stdout.write(`${what}: ${JSON.stringify(result)}\n`);
};

test('every selection is from a single epoch', async () => {
  const result = await pickWhile('correct', PICKS, () => false);
  print('correct writer', result);
  expect(result).toMatchObject({ violations: 0, failures: 0, sample: 'none' });
  expect(result.picks).toBeGreaterThanOrEqual(PICKS);
  expect(result.epochs).toBeGreaterThan(200);
  expect(result.gracePeriods).toBeGreaterThan(10);
});

test('control: a writer that updates in place is detected', async () => {
  const result = await pickWhile('in-place', PICKS, (watch) => watch[3]! > 0n);
  print('in-place writer', result);
  expect(result.violations).toBeGreaterThan(0);
});
