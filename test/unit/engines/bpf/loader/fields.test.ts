// SPDX-License-Identifier: Apache-2.0
// Values of one layout as those of another: by the names of the fields.
import { expect, test } from 'vitest';
import { converter, type Side } from '../../../../../src/engines/bpf/migration/fields.ts';

const side = (fields: string, bytes: number): Side => ({ fields, bytes });

test.each([
  ['moved', side('a 0 16,b 16 16', 4), side('b 0 16,a 16 16', 4), [1, 2, 3, 4], [3, 4, 1, 2]],
  ['added', side('a 0 16', 2), side('c 0 8,a 8 16', 3), [1, 2], [0, 1, 2]],
  ['removed', side('a 0 16,b 16 8', 3), side('b 0 8', 1), [1, 2, 3], [3]],
  ['wider', side('a 0 16', 2), side('a 0 32', 4), [1, 2], [1, 2, 0, 0]],
  ['narrower', side('a 0 32', 4), side('a 0 16', 2), [1, 2, 0, 0], [1, 2]],
  ['padding is left', side('a 0 8,pad 8 8', 2), side('a 0 8,pad 8 8,b 16 8', 3), [1, 9], [1, 0, 0]],
  ['a bit', side('f.x 0 1,f.y 1 1', 1), side('f.y 8 1,f.z 9 1', 2), [3], [0, 1]],
  ['bits become a number', side('x 4 3', 1), side('x 0 8', 1), [0x70], [7]],
  ['without a name', side(' 0 32', 4), side(' 0 64', 8), [5, 0, 0, 1], [5, 0, 0, 1, 0, 0, 0, 0]],
])('%s', (_name, from, to, bytes, expected) => {
  expect([...converter(from, to)(Uint8Array.from(bytes))]).toEqual(expected);
});

test('a number that does not fit is refused with its name', () => {
  const convert = converter(side('flow.port 0 32', 4), side('flow.port 0 16', 2));
  expect(() => convert(Uint8Array.of(0, 0, 1, 0))).toThrow(
    'a value of flow.port does not fit into 16 bits',
  );
  const bits = converter(side('x 0 3', 1), side('x 0 2', 1));
  expect(() => bits(Uint8Array.of(4))).toThrow('a value of x does not fit into 2 bits');
});

test('the same layout is not converted', () => {
  const bytes = Uint8Array.of(1, 2);
  expect(converter(side('a 0 16', 2), side('a 0 16', 2))(bytes)).toBe(bytes);
});
