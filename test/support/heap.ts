// SPDX-License-Identifier: Apache-2.0
// What is alive in this thread's heap, for tests of how much something weighs.
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** Bytes in use once all garbage is gone. */
export function heapBytes(): number {
  collect();
  collect();
  return getHeapStatistics().used_heap_size;
}
