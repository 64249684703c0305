// SPDX-License-Identifier: Apache-2.0
// Chains whose rules are made from text when a walk comes to them: of 400,000 rules, a Service's packets meet a hundred.
import type { Chains, Rule } from './types.ts';

/** Rules that are kept at most, twice: those that were asked for since the last change, and before it. */
const MOST_KEPT = 4_000;

/** A Map is one. */
export interface Sources<Source> extends Iterable<readonly [string, Source]> {
  get(name: string): Source | undefined;
}

export class LazyChains<Source> implements Chains {
  readonly #sources: Sources<Source>;
  readonly #read: (name: string, source: Source) => readonly Rule[];
  #recent = new Map<string, readonly Rule[]>();
  #before: ReadonlyMap<string, readonly Rule[]> = new Map();
  #count = 0;

  constructor(sources: Sources<Source>, read: (name: string, source: Source) => readonly Rule[]) {
    this.#sources = sources;
    this.#read = read;
  }

  get(name: string): readonly Rule[] | undefined {
    const recent = this.#recent.get(name);
    if (recent !== undefined) return recent;
    const source = this.#sources.get(name);
    if (source === undefined) return undefined;
    const rules = this.#before.get(name) ?? this.#read(name, source);
    this.#keep(name, rules);
    return rules;
  }

  *values(): Iterable<readonly Rule[]> {
    for (const [name, source] of this.#sources) yield this.#read(name, source);
  }

  /** A chain for all Services is longer than that, and is asked for again at once: it is not forgotten. */
  #keep(name: string, rules: readonly Rule[]): void {
    this.#recent.set(name, rules);
    this.#count += Math.min(rules.length, MOST_KEPT / 4);
    if (this.#count < MOST_KEPT) return;
    this.#before = this.#recent;
    this.#recent = new Map();
    this.#count = 0;
  }
}
