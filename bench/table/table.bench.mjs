// SPDX-License-Identifier: Apache-2.0
// The table of connections in BPF arrays (bpf/packet/conn) beside the hash tables that held flows before: nanoseconds of a look-up and
// of a beginning, at three sizes. Needs root and a build.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { indexMaskOf, replyBuckets } from '../../build/js/engines/bpf/conn/sizes.js';
import { openObject } from '../../build/js/sys/native.js';

const inRepository = (path) => fileURLToPath(new URL(`../../${path}`, import.meta.url));

const SLOTS = 7;
/** Four of seven slots are taken. */
const SIZES = [8_192, 262_144, 1_048_576];
const PER_RUN = 256;
const ROUNDS = 5;
/** What is taken off: making the key of a hash table, or the tuple that a packet program has. */
const BESIDE = {
  hash_hit: 'key_known',
  hash_hit_both: 'key_known',
  table_hit: 'wire_known',
  hash_miss: 'key_unknown',
  table_miss: 'wire_unknown',
  hash_begin: 'key_unknown',
  table_begin_and_end: 'wire_unknown',
};

const u32 = (value) => new Uint8Array(Uint32Array.of(value).buffer);

/** Of so many buckets, loaded. */
function openTable(buckets, filled) {
  const object = openObject(readFileSync(inRepository('build/bpf-bench/conn.bpf.o')), {
    name: 'conn',
  });
  object.setRodata('conn_buckets4', u32(buckets));
  object.setRodata('conn_index_mask4', u32(indexMaskOf(buckets)));
  object.setRodata('filled', u32(filled));
  object.setMaxEntries('fl_client4', buckets);
  object.setMaxEntries('fl_reply4', replyBuckets(buckets));
  for (const map of ['fl_conn4', 'flow', 'nat']) object.setMaxEntries(map, buckets * SLOTS);
  object.load();
  return object;
}

function measure(filled) {
  const object = openTable(filled / 4, filled);
  try {
    const dataIn = new Uint8Array(64);
    const fill = object.program('fill');
    while (fill.testRun({ dataIn, repeat: 1 }).retval === 0);
    const names = [...new Set(Object.values(BESIDE)), ...Object.keys(BESIDE)];
    const best = Object.fromEntries(names.map((name) => [name, Number.POSITIVE_INFINITY]));
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const name of names) {
        const { durationNs } = object.program(name).testRun({ dataIn, repeat: 400 });
        best[name] = Math.min(best[name], durationNs / PER_RUN);
      }
    }
    return Object.fromEntries(
      Object.entries(BESIDE).map(([name, empty]) => [name, Math.round(best[name] - best[empty])]),
    );
  } finally {
    object.close();
  }
}

execFileSync('make', ['-s', '-C', inRepository('bpf'), 'bench'], { stdio: 'inherit' });
console.log('ns of an operation, less the making of its key, best of 5 rounds');
console.table(Object.fromEntries(SIZES.map((filled) => [filled, measure(filled)])));
