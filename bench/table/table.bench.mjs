// SPDX-License-Identifier: Apache-2.0
// A connection table in BPF arrays (bench/bpf/conn_table.h) beside the hash tables that hold flows today: nanoseconds of a
// look-up and of a beginning, at three sizes. With `--check SECONDS` two CPUs begin and end the same connections for so long, and whatever is
// lost, doubled or of another key is counted. Needs root, a build and, for --check, two CPUs.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { openObject } from '../../build/js/sys/native.js';
import { check } from './check.mjs';

const inRepository = (path) => fileURLToPath(new URL(`../../${path}`, import.meta.url));

const SLOTS = 7;
/** Four of seven slots are taken. */
const SIZES = [8_192, 262_144, 1_048_576];
const PER_RUN = 256;
const ROUNDS = 5;
const KNOWN = ['hash_hit', 'hash_hit_both', 'table_hit'];
const UNKNOWN = ['hash_miss', 'table_miss', 'hash_begin', 'table_begin_and_end'];

const u32 = (value) => new Uint8Array(Uint32Array.of(value).buffer);

/** Of so many buckets, loaded. */
export function openTable({ buckets, filled = 1, keys = 1 }) {
  const object = openObject(readFileSync(inRepository('build/bpf-bench/conn.bpf.o')), {
    name: 'conn',
  });
  for (const [name, value] of Object.entries({ buckets, filled, keys })) {
    object.setRodata(name, u32(value));
  }
  for (const map of ['fl_client', 'fl_reply']) object.setMaxEntries(map, buckets);
  for (const map of ['fl_conn', 'flow', 'nat']) object.setMaxEntries(map, buckets * SLOTS);
  object.load();
  return object;
}

function measure(filled) {
  const object = openTable({ buckets: filled / 4, filled });
  try {
    const dataIn = new Uint8Array(64);
    const fill = object.program('fill');
    while (fill.testRun({ dataIn, repeat: 1 }).retval === 0);
    const names = ['empty_known', 'empty_unknown', ...KNOWN, ...UNKNOWN];
    const best = Object.fromEntries(names.map((name) => [name, Number.POSITIVE_INFINITY]));
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const name of names) {
        const { durationNs } = object.program(name).testRun({ dataIn, repeat: 400 });
        best[name] = Math.min(best[name], durationNs / PER_RUN);
      }
    }
    const beside = (name, empty) => [name, Math.round(best[name] - best[empty])];
    return Object.fromEntries([
      ...KNOWN.map((name) => beside(name, 'empty_known')),
      ...UNKNOWN.map((name) => beside(name, 'empty_unknown')),
    ]);
  } finally {
    object.close();
  }
}

const { values } = parseArgs({ options: { check: { type: 'string' } } });
execFileSync('make', ['-s', '-C', inRepository('bpf'), 'bench'], { stdio: 'inherit' });
if (values.check !== undefined) {
  process.exitCode = await check(openTable, Number(values.check));
} else {
  console.log('ns of an operation, less an empty one, best of 5 rounds');
  console.table(Object.fromEntries(SIZES.map((filled) => [filled, measure(filled)])));
}
