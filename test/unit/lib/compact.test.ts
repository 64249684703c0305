// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from 'vitest';
import { exactList, flatText } from '../../../src/lib/compact.ts';
import { heapBytes } from '../../support/heap.ts';

const MANY = 10_000;

/** Bytes of one of the values that `make` gives, apart from its place in a list. */
function weigh(make: (index: number) => unknown): number {
  const kept: unknown[] = Array.from({ length: MANY });
  const before = heapBytes();
  for (let index = 0; index < MANY; index += 1) kept[index] = make(index);
  const bytes = (heapBytes() - before) / MANY;
  expect(kept).toHaveLength(MANY);
  return bytes;
}

describe('flatText', () => {
  it('is the text of its parts', () => {
    expect(flatText('ns', '/', '', 'web')).toBe('ns/web');
  });

  it('weighs what its letters weigh', () => {
    const parts = (index: number) => [`namespace-${index}`, '/', 'the-name-of-a-service'] as const;
    expect(weigh((index) => flatText(...parts(index)))).toBeLessThan(96);
  });
});

describe('exactList', () => {
  it('has the same items, and is another list', () => {
    const list = [1, 2];
    expect(exactList(list)).toEqual(list);
    expect(exactList(list)).not.toBe(list);
    expect(exactList([])).toBe(exactList([]));
  });

  it('weighs what its items weigh', () => {
    const pushed = (index: number) => {
      const list: number[] = [];
      list.push(index);
      return list;
    };
    expect(weigh((index) => exactList(pushed(index)))).toBeLessThan(96);
  });
});
