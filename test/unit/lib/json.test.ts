// SPDX-License-Identifier: Apache-2.0
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isRecord, isSame, shown } from '../../../src/lib/json.ts';
import { compareText, validateLabel } from '../../../src/lib/names.ts';

describe('isSame', () => {
  it.each([
    [{ a: [1, { b: null }] }, { a: [1, { b: null }] }, true],
    [{ a: 1, b: 2 }, { b: 2, a: 1 }, true],
    [{ a: 1 }, { a: 1, b: undefined }, false],
    [{ a: undefined }, { b: undefined }, false],
    [[1, 2], [1, 2, 3], false],
    [[], {}, false],
    [null, {}, false],
    [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, true],
    [new Map([['a', 1]]), new Map([['a', 1]]), true],
    [new Map([['a', 1]]), new Map([['a', 2]]), false],
    [new Map([['a', 1]]), new Map([['b', 1]]), false],
    [new Map(), {}, false],
  ])('%j and %j: %s', (a, b, isEqual) => {
    expect(isSame(a, b)).toBe(isEqual);
    expect(isSame(b, a)).toBe(isEqual);
  });

  it('a copy is the same', () => {
    fc.assert(fc.property(fc.jsonValue(), (value) => isSame(value, structuredClone(value))));
  });
});

describe('shown', () => {
  it.each([
    ['abc', '"abc"'],
    [70_000, '70000'],
    [null, 'null'],
    [[1], 'a list'],
    [{}, 'an object'],
    [true, 'true'],
  ])('%j is shown as %s', (value, text) => {
    expect(shown(value)).toBe(text);
  });

  it('cuts long text, and keeps line ends out of it', () => {
    expect(shown('x'.repeat(1_000)).length).toBeLessThan(80);
    expect(shown('a\nb')).toBe('"a\\nb"');
  });
});

describe('names', () => {
  it.each(['a', 'web', 'web-1', '1a', 'x'.repeat(63)])('%s is a label', (text) => {
    expect(validateLabel(text)).toBeUndefined();
  });

  it.each(['', '-a', 'a-', 'A', 'a.b', 'a/b', 'a b', 'a\nb', 'é', 'x'.repeat(64)])(
    '%s is not',
    (text) => {
      expect(validateLabel(text)).toBeDefined();
    },
  );

  it('sorts by code units', () => {
    expect(['b', 'a', 'B', 'é', 'a'].sort(compareText)).toEqual(['B', 'a', 'a', 'b', 'é']);
    expect(isRecord([])).toBe(false);
    expect(isRecord(null)).toBe(false);
  });
});
