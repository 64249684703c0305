// SPDX-License-Identifier: Apache-2.0
// A map that no program uses yet, filled with the entries of the one that it replaces.
import { type Entry, empty, entriesOf, fill, TYPE } from './entries.ts';
import type { Pair } from './pairs.ts';

const IS_FILLED: readonly Pair['carrying'][] = ['agent', 'sockets', 'flows'];

/** Again, too: what is no longer there must not stay. */
export function fillPair({ from, to, carrying, converts, seen }: Pair, onBatch?: () => void): void {
  if (!IS_FILLED.includes(carrying)) return;
  if (to.info.type !== TYPE.array) empty(to);
  let entries: Iterable<Entry> = entriesOf(from, onBatch);
  if (to.info.type === TYPE.lruHash && to.info.maxEntries < from.info.maxEntries) {
    entries = latest(
      [...entries],
      to.info.maxEntries,
      ({ value }) => seen?.(converts.value(value)) ?? 0n,
    );
  }
  fill(to, entries, converts);
}

const latest = (entries: Entry[], count: number, seen: (entry: Entry) => bigint): Entry[] =>
  entries
    .map((entry) => ({ entry, at: seen(entry) }))
    .sort((one, other) => (one.at < other.at ? -1 : Number(one.at > other.at)))
    .slice(-count)
    .map(({ entry }) => entry);
