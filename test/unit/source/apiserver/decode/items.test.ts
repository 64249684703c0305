// SPDX-License-Identifier: Apache-2.0
// Bytes in any pieces -> the same items and lines.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ItemSplitter } from '../../../../../src/source/apiserver/decode/items.ts';
import { createLineSplitter } from '../../../../../src/source/apiserver/decode/lines.ts';

/** The bytes of a text, cut at the given offsets. */
function pieces(text: string, cuts: readonly number[]): Uint8Array[] {
  const bytes = Buffer.from(text);
  const offsets = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...offsets].map((from, index) => bytes.subarray(from, offsets[index] ?? bytes.length));
}

const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('utf8');

const anyCuts = fc.array(fc.nat(), { maxLength: 12 });
const anyText = fc.string({
  unit: fc.constantFrom('"', '\\', '{', '}', '[', ']', ',', ':', 'a', 'é', '€', '\n', 'items'),
});
const anyItem = fc.dictionary(anyText, fc.oneof(anyText, fc.jsonValue({ maxDepth: 3 })), {
  maxKeys: 4,
});

describe('ItemSplitter', () => {
  test('gives the items of any list, however it is cut, in whatever order its members come', () => {
    const anyList = fc.record({ metadata: anyItem, items: fc.array(anyItem), kind: anyText });
    fc.assert(
      fc.property(anyList, anyCuts, fc.boolean(), fc.nat(3), (made, cuts, isReversed, indent) => {
        // JSON has no -0.
        const list = JSON.parse(JSON.stringify(made)) as typeof made;
        const entries = Object.entries(list);
        const ordered = Object.fromEntries(isReversed ? entries.reverse() : entries);
        const splitter = new ItemSplitter();
        const items = pieces(JSON.stringify(ordered, null, indent), cuts).flatMap((piece) =>
          splitter.push(piece),
        );
        expect(items.map((item) => JSON.parse(textOf(item)))).toEqual(list.items);
        expect(splitter.envelope()).toEqual({ ...list, items: [] });
      }),
    );
  });

  test('null or missing items are an empty list', () => {
    for (const text of ['{"items":null,"metadata":{"items":[{}]}}', '{"kind":"items"}']) {
      const splitter = new ItemSplitter();
      expect(splitter.push(Buffer.from(text))).toEqual([]);
      expect(splitter.envelope()).toEqual(JSON.parse(text));
    }
  });

  test('a truncated body is not a list', () => {
    const text = '{"metadata":{},"items":[{"a":1},{"b":2}]}';
    for (let length = 0; length < text.length; length += 1) {
      const splitter = new ItemSplitter();
      splitter.push(Buffer.from(text.slice(0, length)));
      expect(() => splitter.envelope()).toThrow(SyntaxError);
    }
  });

  test('an item larger than any API object is rejected before it fills the memory', () => {
    const splitter = new ItemSplitter();
    splitter.push(Buffer.from('{"items":[{"a":"'));
    const block = Buffer.alloc(1024 * 1024, 'x');
    expect(() => {
      for (let mebibytes = 0; mebibytes < 20; mebibytes += 1) splitter.push(block);
    }).toThrow(RangeError);
    const envelope = new ItemSplitter();
    expect(() => {
      for (let mebibytes = 0; mebibytes < 3; mebibytes += 1) envelope.push(block);
    }).toThrow(RangeError);
  });
});

describe('line splitter', () => {
  test('gives the lines of any text, however it is cut', () => {
    const anyLine = fc.string({ unit: fc.constantFrom('a', 'é', '€', '{', '\r') });
    fc.assert(
      fc.property(fc.array(anyLine), anyLine, anyCuts, (lines, rest, cuts) => {
        const splitter = createLineSplitter();
        const text = lines.map((line) => `${line}\n`).join('') + rest;
        const found = pieces(text, cuts).flatMap((piece) => splitter.push(piece).map(textOf));
        expect(found).toEqual(lines.filter((line) => line !== ''));
        expect(splitter.pendingBytes()).toBe(Buffer.byteLength(rest));
      }),
    );
  });

  test('a line longer than any API object is rejected', () => {
    const splitter = createLineSplitter();
    const block = Buffer.alloc(1024 * 1024, 'x');
    expect(() => {
      for (let mebibytes = 0; mebibytes < 20; mebibytes += 1) splitter.push(block);
    }).toThrow(RangeError);
  });
});
