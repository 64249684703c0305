// SPDX-License-Identifier: Apache-2.0
// A map of an earlier generation and the one that takes its place.
import { basename, join } from 'node:path';
import { type BpfMap, openPinnedMap } from '../../../../sys/native.ts';
import { mapPin, type PinnedMap, parseMapPin } from '../../layout/versions.ts';
import {
  type Converts,
  type Entry,
  empty,
  entriesOf,
  fill,
  type MergeOptions,
  TYPE,
} from '../../migration/entries.ts';
import { converter, fieldAt } from '../../migration/fields.ts';
import { CARRYING, type Carrying } from '../../migration/policy.ts';
import { littleEndian } from '../../migration/room.ts';
import { pinsIn } from '../loader/pins.ts';
import { fieldsOf, type Known } from './changes.ts';

export interface Pair {
  readonly map: PinnedMap;
  readonly from: BpfMap;
  readonly to: BpfMap;
  readonly carrying: Carrying;
  readonly converts: Converts;
  readonly seen: MergeOptions['seen'];
}

/** The maps of a generation that another one replaces. The caller closes them. */
export function openPairs(known: Known, earlier: string, later: string): readonly Pair[] {
  return pinsIn(earlier).flatMap((pin) => {
    const map = parseMapPin(pin)?.map;
    const path = map && join(later, mapPin(map, known.versions));
    if (map === undefined || path === undefined || !known.declared.has(map)) return [];
    if (CARRYING[map] === 'own') return [];
    if (!pinsIn(later).includes(basename(path))) return [];
    const [from, to] = [openPinnedMap(join(earlier, pin)), openPinnedMap(path)];
    if (from.info.id !== to.info.id)
      return [pairOf(known, { map, from, to, path: join(earlier, pin) })];
    from.close();
    to.close();
    return [];
  });
}

interface Opened {
  readonly map: PinnedMap;
  readonly from: BpfMap;
  readonly to: BpfMap;
  /** Of `from`. */
  readonly path: string;
}

function pairOf(known: Known, { map, from, to, path }: Opened): Pair {
  const old = fieldsOf(known, path);
  const wanted = known.declared.get(map) ?? old;
  const value = { fields: wanted.value, bytes: to.info.valueSize };
  const key = { fields: wanted.key, bytes: to.info.keySize };
  const at = fieldAt(value, /(?:^|\.)seen_(?:seconds|ns)$/);
  return {
    ...{ map, from, to },
    carrying: CARRYING[map],
    converts: {
      key: converter({ fields: old.key, bytes: from.info.keySize }, key),
      value: converter({ fields: old.value, bytes: from.info.valueSize }, value),
    },
    seen: at && ((bytes) => littleEndian(bytes.subarray(at.at, at.at + at.bytes))),
  };
}

export const closePairs = (pairs: readonly Pair[]): void => {
  for (const { from, to } of pairs) {
    from.close();
    to.close();
  }
};

const IS_FILLED: readonly Pair['carrying'][] = ['agent', 'sockets', 'flows'];

/** Fills a map that no program uses yet. Again, too: what is no longer there must not stay. */
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
