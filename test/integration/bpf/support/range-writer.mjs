// SPDX-License-Identifier: Apache-2.0
// A worker that puts and deletes ranges of one service port around a constant one, as fast as it can.
// Plain JavaScript: nothing compiles a worker.
import { createRequire } from 'node:module';
import { workerData } from 'node:worker_threads';

const { addon, pin, keys, value, control } = workerData;
const native = createRequire(import.meta.url)(addon);
/** [0] stop, [1] rounds */
const shared = new Int32Array(control);
const map = native.openPinnedMap(pin);

while (!Atomics.load(shared, 0)) {
  for (const key of keys) map.put(key, value);
  for (const key of keys) map.delete(key);
  Atomics.add(shared, 1, 1);
}
map.close();
