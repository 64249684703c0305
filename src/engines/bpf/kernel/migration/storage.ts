// SPDX-License-Identifier: Apache-2.0
// Records that are kept in the sockets themselves: only programs can write those (bpf/socket/carry.bpf.c).
import { readIterator } from '../../../../sys/native.ts';
import { encodeU32 } from '../../layout/layout.ts';
import type { PinnedMap } from '../../layout/versions.ts';
import { type LoadOptions, loadLayer } from '../loader/load.ts';
import { takeBack, type Undo } from '../loader/undo.ts';
import type { Pair } from './pairs.ts';

/** struct carried_key. */
const KEY_BYTES = 16;
/** struct carried: as large as the largest record. */
const carriedValue = (value: Uint8Array, bytes: number): Uint8Array => {
  const padded = new Uint8Array(bytes);
  padded.set(value);
  return padded;
};
/** Some hundred thousand sockets. */
const MOST_BYTES = 64 * 1024 * 1024;

export interface StoragePart {
  /** carry.bpf.o */
  readonly object: () => Uint8Array;
  readonly options: LoadOptions;
  /** Told which map's records stay behind, and why. */
  readonly lost: (map: PinnedMap, reason: unknown) => void;
}

/** To sockets that have none in the new map. Throws what the kernel says if it cannot (before Linux 5.11). */
export async function carryStorage(
  { map, from, converts }: Pair,
  { object, options }: Pick<StoragePart, 'object' | 'options'>,
): Promise<void> {
  const undo: Undo = [];
  const former = encodeU32(from.info.valueSize);
  const objects = [{ bytes: object(), rodata: [{ former_bytes: former }] }];
  try {
    const layer = { name: 'records of sockets', objects, hooks: [] };
    const { programs, maps } = await loadLayer(layer, options, undo);
    const [read, store] = [
      programs.get('fl_read_stored'),
      programs.get(map.replace('fl_', 'fl_store_')),
    ];
    const carried = maps.get('fl_carried');
    if (read === undefined || store === undefined || carried === undefined) {
      throw new TypeError(`no program carries ${map} over`);
    }
    const { bytes } = await readIterator(read, { map: from, maxBytes: MOST_BYTES });
    const size = KEY_BYTES + from.info.valueSize;
    for (let at = 0; at + size <= bytes.length; at += size) {
      const value = converts.value(bytes.subarray(at + KEY_BYTES, at + size));
      carried.put(bytes.subarray(at, at + KEY_BYTES), carriedValue(value, carried.info.valueSize));
    }
    await readIterator(store, { map: from });
  } finally {
    takeBack(undo);
  }
}
