// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from 'vitest';
import { offsetIn } from './offset.ts';

type Member = readonly [name: string, type: number, bits: number];
interface Type {
  readonly kind: number;
  readonly name?: string;
  readonly hasBitFields?: boolean;
  readonly members?: readonly Member[];
  /** Words behind the first three, of other kinds. */
  readonly extra?: readonly number[];
  /** Number of elements, if they are not `members`. */
  readonly count?: number;
}

const struct = (name: string, members: readonly Member[], hasBitFields = false): Type => ({
  ...{ kind: 4, name, members, hasBitFields },
});
const union = (name: string, members: readonly Member[]): Type => ({ kind: 5, name, members });
const bitField = (size: number, offset: number): number => size * 2 ** 24 + offset;

/** A table whose types have the ids 1, 2... */
function table(types: readonly Type[]): Uint8Array {
  let strings = '\0';
  const nameAt = (name: string): number => {
    if (name === '') return 0;
    if (!strings.includes(`\0${name}\0`)) strings += `${name}\0`;
    return strings.indexOf(`\0${name}\0`) + 1;
  };
  const words = types.flatMap(
    ({ kind, name = '', hasBitFields = false, members = [], extra, count }) => [
      nameAt(name),
      (hasBitFields ? 2 ** 31 : 0) + kind * 2 ** 24 + (count ?? members.length),
      0,
      ...(extra ?? members.flatMap(([name, type, bits]) => [nameAt(name), type, bits])),
    ],
  );
  const head = [0x01eb9f, 24, 0, words.length * 4, words.length * 4, strings.length];
  return Buffer.concat([
    Buffer.from(Uint32Array.from([...head, ...words]).buffer),
    Buffer.from(strings, 'latin1'),
  ]);
}

const search = { struct: 'packet', member: 'sum' };
const offset = (bytes: Uint8Array): number | undefined => offsetIn(bytes, search);

const other = struct('other', [['sum', 1, 64]]);
const ANONYMOUS_SUM = struct(
  '',
  [
    ['a', 1, 0],
    ['sum', 1, bitField(2, 5)],
  ],
  true,
);

test.each<[string, readonly Type[], number | undefined]>([
  ['a plain member', [struct('packet', [['sum', 1, 96]])], 96],
  ['of the struct, not of another one', [other, struct('packet', [['sum', 1, 96]])], 96],
  ['a bit field', [struct('packet', [['sum', 1, bitField(2, 1029)]], true)], 1029],
  [
    'in an anonymous struct of an anonymous union',
    [struct('packet', [['', 2, 1024]]), union('', [['', 3, 0]]), ANONYMOUS_SUM],
    1029,
  ],
  [
    'in the second of two anonymous ones',
    [
      struct('packet', [
        ['', 2, 32],
        ['', 3, 64],
      ]),
      union('', [['a', 1, 0]]),
      ANONYMOUS_SUM,
    ],
    69,
  ],
  ['not in a member with a name', [struct('packet', [['b', 2, 32]]), ANONYMOUS_SUM], undefined],
  ['no such struct', [other], undefined],
  ['no such member', [struct('packet', [['a', 1, 0]])], undefined],
  [
    'two structs that differ',
    [struct('packet', [['sum', 1, 8]]), struct('packet', [['sum', 1, 16]])],
    undefined,
  ],
  [
    'two structs that agree',
    [struct('packet', [['sum', 1, 8]]), struct('packet', [['sum', 1, 8]])],
    8,
  ],
  ['not a union of the name', [union('packet', [['sum', 1, 8]])], undefined],
])('%s', (_, types, expected) => {
  expect(offset(table(types))).toBe(expected);
});

describe('what stands before the struct', () => {
  // Kind, words behind the first three, number of elements.
  test.each([
    ...[1, 14, 17].map((kind) => [kind, 1, 0]),
    [3, 3, 0],
    ...[2, 7, 8, 9, 10, 11, 16, 18].map((kind) => [kind, 0, 0]),
    [12, 0, 1], // the number says how it is linked
    ...[6, 13].map((kind) => [kind, 8, 4]),
    ...[15, 19].map((kind) => [kind, 12, 4]),
  ])('kind %i', (kind, words, count) => {
    const before = { kind, count, extra: Array.from({ length: words }, () => 0x04000001) };
    expect(offset(table([before, struct('packet', [['sum', 1, 96]])]))).toBe(96);
  });

  test('a kind that is not known', () => {
    const unknown = { kind: 20, count: 0, extra: [] };
    expect(() => offset(table([unknown, struct('packet', [['sum', 1, 96]])]))).toThrow('kind 20');
  });

  test('pages: names and types cross their boundaries', () => {
    for (let length = 0; length < 16; length += 1) {
      const many = Array.from({ length: 1000 }, (_, index) =>
        struct(`s${index}${'x'.repeat(length)}`, [['a', 1, 0]]),
      );
      expect(offset(table([...many, struct('packet', [['sum', 1, 96]]), ...many]))).toBe(96);
    }
  });
});

describe('no table', () => {
  const whole = table([other, struct('packet', [['sum', 1, 96]])]);
  test('empty', () => {
    expect(() => offset(new Uint8Array())).toThrow('cut short');
  });
  test('of another byte order', () => {
    expect(() => offset(Uint8Array.of(0xeb, 0x9f, ...whole.subarray(2)))).toThrow('no BTF');
  });
  test('cut short', () => {
    for (let size = 0; size < whole.length; size += 1) {
      let found: number | undefined;
      try {
        found = offset(whole.subarray(0, size));
      } catch {
        found = undefined;
      }
      expect(found).toBeUndefined();
    }
  });
});
