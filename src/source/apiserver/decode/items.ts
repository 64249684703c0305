// SPDX-License-Identifier: Apache-2.0
// The body of a LIST, as it comes -> the bytes of each item, one by one. Never holds more than one item:
// servers without paged cache reads answer a whole cluster in one body, 40 MB and more.

import { LIMITS } from '../limits.ts';
import { wholeOf } from './lines.ts';
import { type Nesting, outside, QUOTE, stepNesting, walkNested } from './nesting.ts';

const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_LIST = 0x5b;

/** Depth of the items: inside the body's object and its list. */
const ITEM_DEPTH = 2;
/** What is not an item: kind, apiVersion, metadata. */
const ENVELOPE_BYTES = 1024 * 1024;

/**
 * Takes `{"kind":..,"metadata":{..},"items":[{..},{..}]}` apart:
 * items go out one by one, `envelope()` is the rest: `{"kind":..,"metadata":{..},"items":[]}`.
 * The members may come in any order; a body that is no JSON gives an envelope that is none.
 */
export class ItemSplitter {
  /** Of what is not inside an item. */
  readonly #outer = outside();
  #isInItems = false;
  /** From the byte that opens an item to the one that closes it. */
  #inItem: Nesting | undefined;
  /** The last string at depth 1, until a colon makes it a key. */
  #word: number[] = [];
  #key = '';
  #item: Uint8Array[] = [];
  #itemBytes = 0;
  #envelope: number[] = [];

  /** The items that this chunk completes. Throws RangeError if one is larger than any API object. */
  push(chunk: Uint8Array): readonly Uint8Array[] {
    const items: Uint8Array[] = [];
    let index = 0;
    while (index < chunk.length) {
      if (this.#inItem === undefined) {
        index = this.#walkOutside(chunk, index);
        continue;
      }
      const end = walkNested(chunk, index, this.#inItem);
      this.#keep(chunk.subarray(index, end));
      index = end;
      if (this.#inItem.depth > 0) continue;
      this.#inItem = undefined;
      items.push(wholeOf(this.#item));
      this.#item = [];
      this.#itemBytes = 0;
    }
    return items;
  }

  /** Throws SyntaxError unless the body was whole. */
  envelope(): unknown {
    return JSON.parse(Buffer.from(this.#envelope).toString('utf8'));
  }

  /** Up to the byte that opens an item, which is left to walkNested(), or the end of the chunk. */
  #walkOutside(chunk: Uint8Array, from: number): number {
    for (let index = from; index < chunk.length; index += 1) {
      const byte = chunk[index] ?? 0;
      this.#step(byte);
      if (this.#isInItems && this.#outer.depth > ITEM_DEPTH) {
        this.#outer.depth -= 1;
        this.#inItem = outside();
        return index;
      }
      this.#outside(byte);
    }
    return chunk.length;
  }

  #step(byte: number): void {
    const { depth, isInString } = this.#outer;
    const isItems = depth === 1 && !isInString && this.#key === 'items';
    stepNesting(this.#outer, byte);
    if (isItems && byte === OPEN_LIST) this.#isInItems = true;
    else if (this.#outer.depth < ITEM_DEPTH) this.#isInItems = false;
  }

  #outside(byte: number): void {
    if (this.#outer.depth === 1) this.#followKey(byte);
    if (this.#isInItems && byte === COMMA) return;
    this.#envelope.push(byte);
    if (this.#envelope.length > ENVELOPE_BYTES) throw new RangeError('not the body of a list');
  }

  #followKey(byte: number): void {
    if (this.#outer.isInString) {
      if (byte === QUOTE) this.#word = [];
      else if (this.#word.length < 16) this.#word.push(byte);
    } else if (byte === COLON) this.#key = String.fromCharCode(...this.#word);
    else if (byte === COMMA) this.#key = '';
  }

  #keep(part: Uint8Array): void {
    this.#itemBytes += part.length;
    if (this.#itemBytes > LIMITS.objectBytes)
      throw new RangeError('item too long for an API object');
    this.#item.push(part);
  }
}
