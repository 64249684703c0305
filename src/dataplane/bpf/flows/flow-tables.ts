// SPDX-License-Identifier: Apache-2.0
// The tables of flows as readers see them. kernel.ts makes them from BPF maps.

import type { Family } from '../../../model/types.ts';
import type { Leg } from '../../connections.ts';

/** Elements back to back. */
export interface ElementBatch {
  readonly keys: Uint8Array;
  readonly values: Uint8Array;
  readonly count: number;
}

export interface FlowTable {
  readonly name: string;
  readonly keySize: number;
  readonly valueSize: number;
  get(key: Uint8Array): Uint8Array | undefined;
  put(key: Uint8Array, value: Uint8Array): void;
  /** False if the key was absent. */
  delete(key: Uint8Array): boolean;
  /** Every element once, a batch in memory at a time. What is put or deleted meanwhile may be missing. */
  batches(): Iterable<ElementBatch>;
}

/** Established flows, and half-open ones. */
export interface Tiers {
  readonly main: FlowTable;
  readonly halfOpen: FlowTable;
}

export type FlowTables = Readonly<Record<Family, Readonly<Record<Leg, Tiers>>>>;

/** A flow moves from the half-open table to the main one: between the first two look-ups it may do so. */
export const findLeg = ({ main, halfOpen }: Tiers, key: Uint8Array): Uint8Array | undefined =>
  main.get(key) ?? halfOpen.get(key) ?? main.get(key);

export function deleteLeg({ main, halfOpen }: Tiers, key: Uint8Array): boolean {
  const isInMain = main.delete(key);
  return halfOpen.delete(key) || isInMain;
}

export interface Element {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

/**
 * The legs of both tables, each once although a flow may move meanwhile: half-open ones first, because they
 * move to the main table and never back. Copies: keeping one does not keep its batch.
 */
export function* elementsOf({ main, halfOpen }: Tiers): Generator<Element> {
  const seen = new Set<string>();
  for (const element of elementsIn(halfOpen)) {
    seen.add(latin1(element.key));
    yield element;
  }
  for (const element of elementsIn(main)) {
    if (seen.size === 0 || !seen.has(latin1(element.key))) yield element;
  }
}

export function* elementsIn(table: FlowTable): Generator<Element> {
  const { keySize, valueSize } = table;
  for (const { keys, values, count } of table.batches()) {
    for (let index = 0; index < count; index += 1) {
      yield {
        key: keys.slice(index * keySize, (index + 1) * keySize),
        value: values.slice(index * valueSize, (index + 1) * valueSize),
      };
    }
  }
}

/** Bytes as a text to compare by. */
export const latin1 = (bytes: Uint8Array): string => String.fromCharCode(...bytes);
