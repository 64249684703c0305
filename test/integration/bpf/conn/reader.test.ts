// SPDX-License-Identifier: Apache-2.0
// All connections from the memory of a real table: a million, each once and whole, in steps of bounded size; and a few
// slots in which another thread begins connections all the time, of which every copy must be one connection's.
import { mkdtempSync, readFileSync, rmdirSync, unlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { afterEach, expect, test } from 'vitest';
import { proofOf } from '../../../../src/engines/bpf/conn/proof.ts';
import {
  type ConnMemory,
  readConns,
  STEP_BUCKETS,
} from '../../../../src/engines/bpf/conn/reader.ts';
import { CONN_HALF } from '../../../../src/engines/bpf/layout/conn-layout.ts';
import type { Family } from '../../../../src/model/types.ts';
import { type BpfObject, mountBpffs, openObject, unmount } from '../../../../src/sys/native.ts';
import { until } from '../../../support/until.ts';
import { isWholeConn, writeConn } from './support/conn-bytes.ts';

const memoryObject = fileURLToPath(
  new URL('../../../../build/bpf-test/conn_memory.bpf.o', import.meta.url),
);
const SECRET = 0x0123_4567_89ab_cdefn;
const WORDS = { IPv4: 16, IPv6: 32 } as const;

let object: BpfObject | undefined;
afterEach(() => object?.close());

function open(family: Family, buckets: number): ConnMemory {
  const suffix = family === 'IPv4' ? 4 : 6;
  object = openObject(readFileSync(memoryObject), { name: 'conns' });
  object.setMaxEntries(`fl_client${suffix}`, buckets);
  object.setMaxEntries(`fl_conn${suffix}`, 7 * buckets);
  object.load();
  const [client, conn] = [object.map(`fl_client${suffix}`), object.map(`fl_conn${suffix}`)];
  const memoryOf = (map: typeof client) => ({
    map: (offset: number, length: number) => map.mmap(offset, length),
    unmap: (memory: ArrayBuffer) => map.munmap(memory),
  });
  return {
    ...{ family, buckets, proof: proofOf(family, SECRET) },
    ...{ client: memoryOf(client), conn: memoryOf(conn) },
  };
}

const bytesOf = (map: string): Uint32Array => {
  if (object === undefined) throw new Error('no object');
  return new Uint32Array(object.map(map).mmap());
};

test.each([
  ['IPv4', 1_000_000],
  ['IPv6', 50_000],
] as const)('%s: %i connections, each once', (family, count) => {
  // Five of seven slots.
  const buckets = Math.ceil(count / 5);
  const memory = open(family, buckets);
  const suffix = family === 'IPv4' ? 4 : 6;
  const [words, records] = [bytesOf(`fl_client${suffix}`), bytesOf(`fl_conn${suffix}`)];
  const size = WORDS[family];
  for (let number = 0; number < count; number += 1) {
    const [bucket, slot] = [Math.floor(number / 5), number % 5];
    const index = 7 * bucket + slot;
    writeConn(records.subarray(index * size, (index + 1) * size), number, family, memory.proof);
    words[8 * bucket + slot] = (number + 1) | (slot === 4 ? CONN_HALF : 0);
  }
  const scratch = new Uint32Array(size);
  let [next, halfOpen, wrong] = [0, 0, 0];
  const steps = readConns(memory, (record) => {
    if (record.backendId !== next || !isWholeConn(record.words, family, scratch)) wrong += 1;
    if (record.index !== 7 * Math.floor(next / 5) + (next % 5)) wrong += 1;
    if (record.isHalfOpen) halfOpen += 1;
    next += 1;
  });
  let most = 0;
  for (;;) {
    const before = next;
    const { done, value } = steps.next();
    if (done === true) {
      expect(value).toEqual({ read: count, missed: 0 });
      break;
    }
    most = Math.max(most, next - before);
  }
  expect({ next, wrong, halfOpen }).toEqual({ next: count, wrong: 0, halfOpen: count / 5 });
  // What a step takes is bounded by this.
  expect(most).toBe(5 * STEP_BUCKETS);
});

/** Of one bucket: the next connection in a slot follows soon. */
const WHOLE_COPIES = 200_000;

test('copies are whole while another thread begins connections in the same slots', async () => {
  const memory = open('IPv4', 1);
  const pins = mkdtempSync(join(tmpdir(), 'fairlead-conns-'));
  mountBpffs(pins);
  const names = ['fl_client4', 'fl_conn4'];
  for (const name of names) object?.map(name).pin(join(pins, name));
  const control = new SharedArrayBuffer(8);
  const shared = new Int32Array(control);
  const worker = new Worker(new URL('support/conn-writer.mjs', import.meta.url), {
    workerData: { pins, buckets: 1, secret: SECRET, control },
  });
  try {
    await until(() => Atomics.load(shared, 1) > 0, 'connections begin');
    const scratch = new Uint32Array(16);
    let [read, wrong, missed] = [0, 0, 0];
    while (read < WHOLE_COPIES) {
      const steps = readConns(memory, (record) => {
        read += 1;
        if (!isWholeConn(record.words, 'IPv4', scratch)) wrong += 1;
      });
      steps.next();
      const { value } = steps.next();
      missed += value?.missed ?? 0;
    }
    expect(wrong).toBe(0);
    // Else both were never at the same record.
    expect(missed).toBeGreaterThan(0);
    expect(Atomics.load(shared, 1)).toBeGreaterThan(1000);
  } finally {
    Atomics.store(shared, 0, 1);
    await new Promise((resolve) => worker.once('exit', resolve));
    for (const name of names) unlinkSync(join(pins, name));
    unmount(pins);
    rmdirSync(pins);
  }
});
