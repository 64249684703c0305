// SPDX-License-Identifier: Apache-2.0
// The words of one rule, read from left to right.

export class Words {
  readonly #words: readonly string[];
  #at = 0;

  constructor(words: readonly string[]) {
    this.#words = words;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#words.length;
  }

  /** How many were taken. */
  get position(): number {
    return this.#at;
  }

  peek(ahead = 0): string {
    return this.#words[this.#at + ahead] ?? '';
  }

  next(): string {
    const word = this.peek();
    this.#at += 1;
    return word;
  }

  /** Takes the words if they come next. */
  take(...wanted: readonly string[]): boolean {
    if (!wanted.every((word, index) => this.peek(index) === word)) return false;
    this.#at += wanted.length;
    return true;
  }

  /** What stands in the braces that come next, split at commas; or the one word that comes next. */
  list(): readonly (readonly string[])[] {
    if (!this.take('{')) return [[this.next()]];
    const items: string[][] = [[]];
    while (!this.isAtEnd && !this.take('}')) {
      const word = this.next();
      if (word === ',') items.push([]);
      else items.at(-1)?.push(word);
    }
    return items.filter((item) => item.length > 0);
  }

  rest(): string {
    return this.#words.slice(this.#at).join(' ');
  }
}
