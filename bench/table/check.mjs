// SPDX-License-Identifier: Apache-2.0
// Two CPUs begin and end the same connections: what the program found wrong meanwhile, and what is wrong with the table after that.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { audit } from './audit.mjs';

const COUNTS = [
  'inserted',
  'deleted',
  'doubled',
  'portTaken',
  'noRoom',
  'foreign',
  'lost',
  'twice',
];
const WRONG = ['foreign', 'lost', 'twice'];
/** Many keys in much room, and few that meet in eight buckets, whose slots are used again at once. */
const CROWDS = [
  { buckets: 2_048, keys: 4_096 },
  { buckets: 8, keys: 40 },
];

/** @returns the exit code */
export async function check(open, seconds) {
  let wrong = 0;
  for (const crowd of CROWDS) {
    const object = open(crowd);
    try {
      await churn(object, seconds / CROWDS.length);
      const counts = countsOf(object.map('counted').get(new Uint8Array(4)));
      const found = audit(object, counts.inserted - counts.deleted);
      wrong += found.length + WRONG.reduce((sum, name) => sum + counts[name], 0);
      console.log(JSON.stringify({ ...crowd, ...counts, wrongAtTheEnd: found }));
    } finally {
      object.close();
    }
  }
  console.log(wrong === 0 ? 'nothing is wrong' : `${wrong} things are wrong`);
  return wrong === 0 ? 0 : 1;
}

async function churn(object, seconds) {
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-table-'));
  execFileSync('mount', ['-t', 'bpf', 'bpf', folder]);
  try {
    const pin = join(folder, 'churn');
    object.program('churn').pin(pin);
    await Promise.all(['0', '1'].map((cpu) => runOn(cpu, pin, seconds)));
  } finally {
    execFileSync('umount', [folder]);
    rmSync(folder, { recursive: true });
  }
}

const runOn = (cpu, pin, seconds) =>
  new Promise((resolve, reject) => {
    const workerData = { cpu, pin, seconds };
    const worker = new Worker(new URL('churn-worker.mjs', import.meta.url), { workerData });
    worker.on('exit', resolve);
    worker.on('error', reject);
  });

/** Of all CPUs. */
function countsOf(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const counts = Object.fromEntries(COUNTS.map((name) => [name, 0]));
  for (let at = 0; at < bytes.byteLength; at += 8) {
    counts[COUNTS[(at / 8) % COUNTS.length]] += Number(view.getBigUint64(at, true));
  }
  return counts;
}
