// SPDX-License-Identifier: Apache-2.0
// The look-up table of Maglev (Eisenbud et al., NSDI 2016, section 3.4): backends take turns, each takes the first entry
// of its preferences that is free. The same from the same backends, in whatever order they are given; if one comes or
// goes, few of the others' entries change.

import { murmur3 } from '../../lib/murmur3.ts';
import { resultOf } from '../../lib/steps.ts';
import type { LookupInput } from '../lookup-table.ts';

/** Two functions of one name. */
const OFFSET_SEED = 0x6661_6972;
const SKIP_SEED = 0x6c65_6164;
/** No index: a set has 65,535 backends at most. */
const FREE = 65_535;
/** Entries that are looked at between two pauses: well under a millisecond. */
const STEPS = 32_768;

/** Indexes of names, by entry. */
export function maglevTable(input: LookupInput): Uint16Array {
  return resultOf(populate(input));
}

/** The same in steps, between which others may run. About n ln n looks for n entries. */
export function* populate({ names, weights, entries }: LookupInput): Generator<void, Uint16Array> {
  const table = new Uint16Array(entries).fill(FREE);
  const at = Uint32Array.from(names, (name) => murmur3(name, OFFSET_SEED) % entries);
  const skip = Uint32Array.from(names, (name) => 1 + (murmur3(name, SKIP_SEED) % (entries - 1)));
  let filled = 0;
  let looks = 0;
  for (const round of rounds(names, weights)) {
    for (const index of round) {
      let entry = at[index] ?? 0;
      const step = skip[index] ?? 1;
      while (table[entry] !== FREE) {
        entry += step;
        if (entry >= entries) entry -= entries;
        looks += 1;
      }
      table[entry] = index;
      at[index] = entry;
      looks += 1;
      filled += 1;
      if (filled === entries) return table;
      if (looks < STEPS) continue;
      looks = 0;
      yield;
    }
  }
  return table;
}

/**
 * Who has a turn in each round, by name, for ever. A backend skips turns in proportion to its weight, as in Envoy and
 * Katran: of k turns of the heaviest it has k times its part of that weight.
 */
function* rounds(
  names: readonly string[],
  weights: readonly number[],
): Generator<readonly number[]> {
  const order = names
    .map((_, index) => index)
    .sort((a, b) => ((names[a] ?? '') < (names[b] ?? '') ? -1 : 1));
  const most = weights.reduce((largest, weight) => Math.max(largest, weight), 1);
  if (weights.every((weight) => weight === most)) for (;;) yield order;
  const turns = new Uint32Array(names.length);
  const due = new Map<number, number[]>([[1, order.map((_, rank) => rank)]]);
  for (let round = 1; ; round += 1) {
    const next = due.get(round) ?? [];
    due.delete(round);
    next.sort((a, b) => a - b);
    for (const rank of next) {
      const index = order[rank] ?? 0;
      turns[index] = (turns[index] ?? 0) + 1;
      const turn = Math.ceil(((turns[index] ?? 0) * most) / (weights[index] ?? 1));
      const at = Math.max(round + 1, turn);
      const others = due.get(at);
      if (others === undefined) due.set(at, [rank]);
      else others.push(rank);
    }
    yield next.map((rank) => order[rank] ?? 0);
  }
}
