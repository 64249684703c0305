// SPDX-License-Identifier: Apache-2.0
// Flow tables over BPF maps, read batch by batch.
import type { BpfMap } from '../../../sys/native.ts';
import type { ElementBatch, FlowTable } from './flow-tables.ts';

/** About 300 KiB of IPv6 flows. */
const BATCH_ELEMENTS = 2048;

export function flowTable(map: BpfMap): FlowTable {
  const { name, keySize, valueSize } = map.info;
  return {
    ...{ name, keySize, valueSize },
    get: (key) => map.get(key),
    delete: (key) => map.delete(key),
    batches: () => batchesOf(map),
  };
}

function* batchesOf(map: BpfMap): Generator<ElementBatch> {
  for (let after: Uint8Array | undefined; ; ) {
    const { next, ...batch } = map.readBatch(BATCH_ELEMENTS, after);
    yield batch;
    if (next === undefined) return;
    after = next;
  }
}
