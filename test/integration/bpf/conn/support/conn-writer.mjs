// SPDX-License-Identifier: Apache-2.0
// A worker that begins other connections in the same slots as fast as it can, as programs do it: BUSY, the record, the
// word. Plain JavaScript over build/: nothing compiles a worker.
import { workerData } from 'node:worker_threads';
import { proofOf } from '../../../../../build/js/engines/bpf/conn/proof.js';
import { openPinnedMap } from '../../../../../build/js/sys/native.js';

const { pins, buckets, secret, control } = workerData;
/** [0] stop, [1] records written */
const shared = new Int32Array(control);
const words = new Uint32Array(openPinnedMap(`${pins}/fl_client4`).mmap());
const records = new Uint32Array(openPinnedMap(`${pins}/fl_conn4`).mmap());
const proof = proofOf('IPv4', secret);
const next = new Uint32Array(16);

/** As writeConn() of conn-bytes.ts. */
function make(number) {
  next.set([2 | ((number & 0xffff) << 16), 6 << 8, number, ~number, number * 3, number * 5, 7]);
  next.set([number * 11, number * 13, 0, number * 17, number * 19], 7);
  for (let at = 0; at < 4; at += 1) next[12 + at] = number * (at + 23);
  next[1] |= proof(next) << 16;
}

for (let number = 1; Atomics.load(shared, 0) === 0; number += 1) {
  const slot = number % (7 * buckets);
  const at = Math.floor(slot / 7) * 8 + (slot % 7);
  make(number);
  Atomics.store(words, at, 0x8000_0001);
  for (let word = 0; word < 16; word += 1) records[slot * 16 + word] = next[word];
  // The same tag again and again: the word alone does not tell one connection from the next.
  Atomics.store(words, at, 1);
  Atomics.store(shared, 1, number);
}
