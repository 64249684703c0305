// SPDX-License-Identifier: Apache-2.0
// The live size of this thread's heap, for tests of memory use.
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** Bytes in use after garbage collection. */
export function heapBytes(): number {
  collect();
  collect();
  return getHeapStatistics().used_heap_size;
}
