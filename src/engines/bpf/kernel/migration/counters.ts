// SPDX-License-Identifier: Apache-2.0
// Counters of an earlier generation are added to those that programs use now, and set to 0, so that an agent that is
// killed in between adds nothing twice.
import type { BpfMap } from '../../../../sys/native.ts';
import {
  type Entry,
  entriesOf,
  indexOf,
  mapPart,
  PART_ELEMENTS,
  TYPE,
  wordsOf,
} from '../../migration/entries.ts';
import type { Pair } from './pairs.ts';

export function addCounters({ from, to, converts }: Pair): void {
  if (to.info.type === TYPE.percpuArray) addPerCpu(from, to);
  else addShared(from, to, converts.value);
}

/** Between reading and writing the count of a moment may be lost. */
function addPerCpu(from: BpfMap, to: BpfMap): void {
  for (const { key, value } of entriesOf(from)) {
    const sum = to.get(key);
    if (sum === undefined) continue;
    const [more, all] = [words(value.slice()), words(sum)];
    for (let cpu = 0; cpu < all.length; cpu += 1) all[cpu] = (all[cpu] ?? 0n) + (more[cpu] ?? 0n);
    to.put(key, sum);
    from.put(key, new Uint8Array(value.length));
  }
}

/** Atomically, as the programs do. */
function addShared(from: BpfMap, to: BpfMap, convert: (bytes: Uint8Array) => Uint8Array): void {
  const zero = new Uint8Array(from.info.valueSize);
  const size = wordsOf(to);
  for (const [first, entries] of byPart(entriesOf(from), to.info.maxEntries)) {
    const memory = mapPart(to, first);
    const sums = new BigUint64Array(memory);
    for (const { key, value } of entries) {
      const at = (indexOf(key) - first) * size;
      for (const [word, more] of words(convert(value).slice()).entries()) {
        Atomics.add(sums, at + word, more);
      }
      from.put(key, zero);
    }
    to.munmap(memory);
  }
}

/** By the first element of the part of shared memory that each belongs to. */
function byPart(entries: Iterable<Entry>, maxEntries: number): ReadonlyMap<number, Entry[]> {
  const parts = new Map<number, Entry[]>();
  for (const entry of entries) {
    const index = indexOf(entry.key);
    if (index >= maxEntries) continue;
    const first = index - (index % PART_ELEMENTS);
    const part = parts.get(first);
    if (part === undefined) parts.set(first, [entry]);
    else part.push(entry);
  }
  return parts;
}

const words = (bytes: Uint8Array): BigUint64Array =>
  new BigUint64Array(bytes.buffer, bytes.byteOffset, Math.floor(bytes.length / 8));
