// SPDX-License-Identifier: Apache-2.0
// What is written can be read again, by the code that reads the kernel's.
import { expect, test } from 'vitest';
import { lookUp } from '../../../../src/sys/btf/member.ts';
import { findNames, type ReadAt, sectionsOf, wordsOf } from '../../../../src/sys/btf/read.ts';
import { writeBtf } from '../../../../src/sys/btf/write.ts';

const readerOf =
  (bytes: Uint8Array): ReadAt =>
  (into, position) => {
    const part = bytes.subarray(position, position + Math.min(into.length, 4096));
    into.set(part);
    return part.length;
  };

const bytes = writeBtf([
  { kind: 'struct', name: 'inner', members: [{ name: 'state', offsetBits: 144 }] },
  {
    kind: 'struct',
    name: 'outer',
    members: [
      { name: 'first', struct: 'inner', offsetBits: 0 },
      { name: 'flag', offsetBits: 4225, widthBits: 1 },
    ],
  },
  { kind: 'enum', name: 'functions', enumerators: ['one', 'other'] },
]);

test('members of several structs, in one pass', () => {
  const members = [
    { struct: 'outer', member: 'flag' },
    { struct: 'inner', member: 'state' },
    { struct: 'outer', member: 'first' },
    { struct: 'inner', member: 'flag' },
    { struct: 'functions', member: 'one' },
    { struct: 'none', member: 'state' },
  ];
  expect(lookUp(readerOf(bytes), { members, names: ['other', 'none', 'state'] })).toEqual({
    offsets: [4225, 144, 0, undefined, undefined, undefined],
    names: ['other', 'state'],
    functions: [],
  });
});

test('its sections are whole', () => {
  const { types, strings } = sectionsOf(wordsOf(readerOf(bytes)));
  expect([types.end, strings.end]).toEqual([strings.start, bytes.length]);
  const names = findNames(readerOf(bytes), strings, ['one', 'other', 'unsigned char', 'none']);
  expect([...names.keys()].sort()).toEqual(['one', 'other', 'unsigned char']);
});
