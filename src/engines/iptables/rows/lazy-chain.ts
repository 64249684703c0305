// SPDX-License-Identifier: Apache-2.0
// A chain whose rules are made each time they are asked for. Of a large cluster the renderer keeps a hundred thousand
// chains to tell which ones did not change; with their rules they would weigh four times as much.
import type { Chain, Rule } from '../rules/types.ts';

class LazyChain implements Chain {
  readonly name: string;
  readonly #rules: () => readonly Rule[];

  constructor(name: string, rules: () => readonly Rule[]) {
    this.name = name;
    this.#rules = rules;
  }

  get rules(): readonly Rule[] {
    return this.#rules();
  }
}

/** @param rules pure */
export const lazyChain = (name: string, rules: () => readonly Rule[]): Chain =>
  new LazyChain(name, rules);
