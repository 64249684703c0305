// SPDX-License-Identifier: Apache-2.0
// Which kind of set a port needs, and the table that a kind with weights chooses from: every backend has a number of
// entries in proportion to its weight, as far apart from each other as possible. Pure.
//   weights 3, 1 -> backends 0 0 1 0

import { MOST_ENTRIES } from '../../../../model/service/table-size.ts';
import type { Algorithm } from '../../../../model/types.ts';
import { BALANCING, lookupOf, weightFor } from '../../../../plan/decide/balancing.ts';
import type { LookupAlgorithm, LookupInput } from '../../../../plan/lookup-table.ts';
import type { ServicePortPlan } from '../../../../plan/types.ts';
import { hasTable, type SetKind } from '../../layout/layout.ts';
import type { EnsuredBackends } from './backends.ts';
import { sharesOf, type WantedLookup, type WantedSet } from './lookup-content.ts';
import type { RenderedSet } from './render.ts';

/** A table of so many entries at least has room for every share that is a multiple of a thousandth. */
const USUAL_ENTRIES = 1024;
const ENTRIES_PER_BACKEND = 4;

/**
 * Where all weights are equal, most need no table.
 * @param made the lookup table, if it has been made before
 */
export function setContent(
  port: ServicePortPlan,
  { algorithm, backends }: Pick<RenderedSet, 'algorithm' | 'backends'>,
  { ascending, asked }: EnsuredBackends,
  made?: Uint16Array,
): WantedSet {
  const algorithmOfTable = lookupOf(algorithm);
  if (algorithmOfTable !== undefined) {
    const input = algorithmOfTable.inputOf(port, backends);
    const lookup = wantedLookup(algorithmOfTable, input, asked, made);
    return { kind: algorithm, members: ascending, table: [], lookup };
  }
  const weights = BALANCING[algorithm].isWeighing ? backends.map(weightFor(algorithm)) : [];
  const isEven = weights.every((weight) => weight === weights[0]);
  const kind = (isEven ? UNWEIGHTED[algorithm] : undefined) ?? algorithm;
  const order = hasTable(kind) ? orderOf(kind, weights) : [];
  const table = order.flatMap((index) => entryOf(kind, asked[index] ?? 0, weights[index] ?? 1));
  return { kind, members: ascending, table };
}

function wantedLookup(
  algorithm: LookupAlgorithm,
  input: LookupInput,
  asked: readonly number[],
  made: Uint16Array | undefined,
): WantedLookup {
  const table = (): Uint16Array =>
    made?.length === input.entries ? made : algorithm.tableOf(input);
  const ids = (): Uint32Array => {
    const indexes = table();
    for (let entry = 0; entry < indexes.length; entry += 1)
      idsByEntry[entry] = asked[indexes[entry] ?? 0] ?? 0;
    return idsByEntry.subarray(0, indexes.length);
  };
  return { entries: input.entries, shares: sharesOf(input.weights), ids };
}

/** Of the latest table, for as long as it is written: an array for each would keep the garbage collector busy. */
const idsByEntry = new Uint32Array(MOST_ENTRIES);

/** FEW_MEMBERS of bpf/common/least.h. */
export const FEW_MEMBERS = 8;

/** Of few backends all are compared: each is there once. */
const orderOf = (kind: SetKind, weights: readonly number[]): readonly number[] =>
  kind === 'weighted-least-connections' && weights.length <= FEW_MEMBERS
    ? weights.map((_, index) => index)
    : tableOrder(weights);

const entryOf = (kind: SetKind, id: number, weight: number): readonly number[] =>
  kind === 'weighted-least-connections' ? [id, weight] : [id];

/** Others stay as they are. The table of source-hash is in the order of addresses, which is the same on every node; that of ids is not. */
const UNWEIGHTED: Readonly<Partial<Record<Algorithm, SetKind>>> = {
  'weighted-random': 'random',
  'weighted-round-robin': 'round-robin',
  'weighted-least-connections': 'least-connections',
};

/** More than the indexes of a set; with the place in the table both fit into a number. */
const INDEXES = 2 ** 16;
const PLACES = 2 ** 36;

/**
 * Indexes of backends, in the order of the table. Weights are 1 or more. O(n log n) in its entries: sorted as numbers,
 * because a Service of 5,000 backends has 20,000.
 */
export function tableOrder(weights: readonly number[]): readonly number[] {
  const counts = entriesOf(weights);
  const keys = new Float64Array(counts.reduce((sum, count) => sum + count, 0));
  let filled = 0;
  for (const [index, count] of counts.entries()) {
    for (let turn = 0; turn < count; turn += 1) {
      keys[filled] = Math.floor(((turn + 0.5) / count) * PLACES) * INDEXES + index;
      filled += 1;
    }
  }
  return Array.from(keys.sort(), (key) => key % INDEXES);
}

/**
 * How many entries each backend has. Exact if the weights, divided by their greatest common divisor, have a sum that
 * fits; else each is off by less than one entry, and one whose share is below an entry has one.
 */
export function entriesOf(weights: readonly number[]): readonly number[] {
  const divisor = weights.reduce(greatestCommonDivisor, 0);
  const reduced = weights.map((weight) => weight / divisor);
  const sum = reduced.reduce((total, weight) => total + weight, 0);
  const most = Math.max(USUAL_ENTRIES, ENTRIES_PER_BACKEND * weights.length);
  return sum <= most ? reduced : apportioned(reduced.map((weight) => (weight * most) / sum));
}

/** Largest remainders are rounded up, until the sum is that of the shares. */
function apportioned(shares: readonly number[]): readonly number[] {
  const counts = shares.map((share) => Math.max(1, Math.floor(share)));
  const total = Math.round(shares.reduce((sum, share) => sum + share, 0));
  const left = total - counts.reduce((sum, count) => sum + count, 0);
  const byRemainder = shares
    .map((share, index) => ({ index, remainder: share - (counts[index] ?? 0) }))
    .sort((a, b) => b.remainder - a.remainder || a.index - b.index);
  for (const { index } of byRemainder.slice(0, Math.max(0, left))) {
    counts[index] = (counts[index] ?? 0) + 1;
  }
  return counts;
}

const greatestCommonDivisor = (a: number, b: number): number =>
  b === 0 ? a : greatestCommonDivisor(b, a % b);
