// SPDX-License-Identifier: Apache-2.0
// A worker that publishes one epoch after another of one frontend, as fast as it can. `correct`: new
// blocks and backends, then one store of the rule, and old runs only after a grace period. `in-place`: over
// the blocks and backends that the frontend refers to, which is what must be noticed.
// Plain JavaScript: nothing compiles a worker. bpf/test/drive.bpf.c says what an epoch looks like.
import { createRequire } from 'node:module';
import { workerData } from 'node:worker_threads';

const { addon, pins, mode, control } = workerData;
const native = createRequire(import.meta.url)(addon);
/** [0] stop, [1] epochs published, [2] grace periods waited for */
const shared = new Int32Array(control);

const RUNS = 8; // 8,000 ids, 504 blocks
const SLOTS = 1000;
const BLOCKS_PER_RUN = 63;
const SERVICE = 1;

const frontendMap = native.openPinnedMap(`${pins}/fl_frontend`);
const frontends = new BigUint64Array(frontendMap.mmap());
const backendMap = native.openPinnedMap(`${pins}/fl_backend4`);
const backends = new DataView(backendMap.mmap());
const blockMap = native.openPinnedMap(`${pins}/fl_slot_block`);
const blocks = new Uint32Array(blockMap.mmap());
const watchMap = native.openPinnedMap(`${pins}/fl_watch`);
const watch = new BigInt64Array(watchMap.mmap());

const slotsOf = (epoch) => 1000 - (epoch % 8);

function writeRun(run, epoch) {
  const slots = slotsOf(epoch);
  blocks[run * BLOCKS_PER_RUN * 16] = SERVICE;
  for (let slot = 0; slot < slots; slot++) {
    const id = 1 + run * SLOTS + slot;
    const at = id * 16;
    backends.setUint32(at, epoch); // the address, network order
    backends.setUint16(at + 4, slot, true);
    backends.setUint8(at + 6, 1); // ACTIVE
    backends.setUint32(at + 8, SERVICE, true);
    backends.setUint16(at + 12, epoch & 0xffff, true);
    blocks[run * BLOCKS_PER_RUN * 16 + 1 + slot] = id;
  }
}

/** struct traffic_rule of POSITION_HOST in the frontend with the id 1. */
const ruleAt = (64 + 8) / 8;

function publish(run, epoch) {
  const rule = (BigInt(slotsOf(epoch)) << 32n) | BigInt(run * BLOCKS_PER_RUN);
  Atomics.store(watch, 1, BigInt(epoch));
  Atomics.store(frontends, ruleAt, rule);
  Atomics.store(watch, 0, BigInt(epoch));
  Atomics.store(shared, 1, epoch);
}

let epoch = 0;
for (let run = 0; !Atomics.load(shared, 0); run = (run + 1) % RUNS) {
  // One wait covers all runs but the one in use, which is the last and comes round last.
  if (mode === 'correct' && run === 0 && epoch > 0) {
    await native.waitGracePeriod();
    Atomics.add(shared, 2, 1);
  }
  epoch += 1;
  writeRun(mode === 'correct' ? run : 0, epoch);
  publish(mode === 'correct' ? run : 0, epoch);
}
for (const map of [frontendMap, backendMap, blockMap, watchMap]) map.close();
