// SPDX-License-Identifier: Apache-2.0
// Reads all connections of a table from its memory, and looks for those that are over, in two ways: in the agent, and by a
// BPF program a part at a time. Milliseconds of 1,000,000 connections of IPv4, and the longest part. Needs root and a build.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { proofOf } from '../../build/js/engines/bpf/conn/proof.js';
import { readConns, STEP_BUCKETS } from '../../build/js/engines/bpf/conn/reader.js';
import { openObject } from '../../build/js/sys/native.js';

const inRepository = (path) => fileURLToPath(new URL(`../../${path}`, import.meta.url));

const CONNECTIONS = 1_000_000;
/** Of seven slots. */
const FILLED = 4;
const BUCKETS = CONNECTIONS / FILLED;
const RECORD_WORDS = 16;
const ROUNDS = 7;
const SECRET = 0x0123_4567_89ab_cdefn;
const TICKS_PER_SECOND = 60;
const TIMEOUTS = [20, 86_400, 3600, 10, 30, 180];
const NOW = 10_000_000;
/** Fields of struct sweep_part. */
const PART = { now: 6, first: 7, count: 8, records: 9, over: 10 };

function fill(words, records, proof) {
  const random = () => Math.floor(Math.random() * 2 ** 32);
  for (let number = 0; number < CONNECTIONS; number += 1) {
    const [bucket, slot] = [Math.floor(number / FILLED), number % FILLED];
    const at = (7 * bucket + slot) * RECORD_WORDS;
    const record = records.subarray(at, at + RECORD_WORDS);
    for (let word = 2; word < RECORD_WORDS; word += 1) record[word] = random();
    record[0] = 2;
    // One of 50 has been silent for two days.
    record[4] = NOW - (number % 50 === 0 ? 2 * 86_400 * TICKS_PER_SECOND : 0);
    record[1] = 6 << 8;
    record[1] |= proof(record) << 16;
    words[8 * bucket + slot] = number + 1;
  }
}

/** All steps, and the longest. */
function timed(steps) {
  const begun = performance.now();
  let longest = 0;
  for (let last = begun, done = false; !done; ) {
    done = steps.next().done;
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
  }
  return { all: performance.now() - begun, longest };
}

/** The same rule for the one state that there is here. */
function* sweepInAgent(memory, found) {
  const kept = TIMEOUTS[1] * TICKS_PER_SECOND;
  for (let first = 0; first < BUCKETS; first += STEP_BUCKETS) {
    const count = Math.min(STEP_BUCKETS, BUCKETS - first);
    const client = memory.client.map(first * 32, count * 32);
    const conn = memory.conn.map(first * 448, count * 448);
    const [words, records] = [new Uint32Array(client), new Uint32Array(conn)];
    for (let at = 0; at < words.length; at += 1) {
      const slot = at % 8;
      if (slot === 7 || words[at] === 0 || words[at] >= 0x8000_0000) continue;
      const record = ((at >> 3) * 7 + slot) * RECORD_WORDS;
      found.records += 1;
      if ((records[record] & 0xff) === 2 && ((NOW - records[record + 4]) | 0) > kept)
        found.over += 1;
    }
    memory.client.unmap(client);
    memory.conn.unmap(conn);
    yield;
  }
}

function* sweepInKernel(object, found) {
  const part = new Uint32Array(object.map('fl_part').mmap());
  const program = object.program('fl_sweep_part');
  const dataIn = new Uint8Array(64);
  part.set([...TIMEOUTS, NOW]);
  for (let first = 0; first < BUCKETS; first += STEP_BUCKETS) {
    part.set([first, Math.min(STEP_BUCKETS, BUCKETS - first), 0, 0], PART.first);
    program.testRun({ dataIn });
    found.records += part[PART.records];
    found.over += part[PART.over];
    yield;
  }
  program.close();
}

execFileSync('make', ['-s', '-C', inRepository('bpf')], { stdio: 'inherit' });
const object = openObject(readFileSync(inRepository('build/bpf-test/conn_memory.bpf.o')), {
  name: 'conns',
});
object.setMaxEntries('fl_client4', BUCKETS);
object.setMaxEntries('fl_conn4', 7 * BUCKETS);
object.load();
const [client, conn] = [object.map('fl_client4'), object.map('fl_conn4')];
const memoryOf = (map) => ({
  map: (offset, length) => map.mmap(offset, length),
  unmap: (memory) => map.munmap(memory),
});
const memory = {
  ...{ family: 'IPv4', buckets: BUCKETS, proof: proofOf('IPv4', SECRET) },
  ...{ client: memoryOf(client), conn: memoryOf(conn) },
};
fill(new Uint32Array(client.mmap()), new Uint32Array(conn.mmap()), memory.proof);

function* readAll(_, found) {
  let seen = 0;
  const { read } = yield* readConns(memory, (record) => {
    seen += record.seenTick & 1;
  });
  found.records = read;
  found.over = seen;
}

const ways = {
  'read all': readAll,
  'find what is over, in the agent': (_, found) => sweepInAgent(memory, found),
  'find what is over, in the kernel': sweepInKernel,
};
const results = {};
for (let round = 0; round < ROUNDS; round += 1) {
  for (const [name, way] of Object.entries(ways)) {
    const found = { records: 0, over: 0 };
    const { all, longest } = timed(way(object, found));
    if (found.records !== CONNECTIONS) throw new Error(`${name}: ${found.records} connections`);
    if (name !== 'read all' && found.over !== CONNECTIONS / 50) {
      throw new Error(`${name}: ${found.over} are over`);
    }
    const best = results[name] ?? { 'all ms': Infinity, 'longest part ms': Infinity };
    results[name] = {
      'all ms': Math.min(best['all ms'], Math.round(all * 10) / 10),
      'longest part ms': Math.min(best['longest part ms'], Math.round(longest * 10) / 10),
    };
  }
}
console.log(`${CONNECTIONS} connections of IPv4, best of ${ROUNDS} rounds`);
console.table(results);
object.close();
