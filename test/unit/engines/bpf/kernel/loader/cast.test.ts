// SPDX-License-Identifier: Apache-2.0
// Calls of no helper become calls of a function of the kernel, if the settings of the load name one.
import { expect, test } from 'vitest';
import { withCast } from '../../../../../../src/engines/bpf/kernel/loader/cast.ts';

const CALL = [0x85, 0, 0, 0, 0x00, 0x57, 0xca, 0x7f];
const OTHERS = [0xbf, 0x61, 0, 0, 0, 0, 0, 0, 0x85, 0, 0, 0, 1, 0, 0, 0];
const OBJECT = Uint8Array.from([...OTHERS, ...CALL, ...CALL, ...OTHERS]);
const id = (value: number): Uint8Array => new Uint8Array(Uint32Array.of(value).buffer);

test('all such calls, and no other byte', () => {
  const call = [0x85, 0x20, 0, 0, 0x3c, 0xf8, 0, 0];
  const object = withCast(OBJECT, { cast_function: id(0xf83c) });
  expect([...object]).toEqual([...OTHERS, ...call, ...call, ...OTHERS]);
  expect([...OBJECT.subarray(OTHERS.length, OTHERS.length + CALL.length)]).toEqual(CALL);
});

test.each([{}, { cast_function: id(0) }])('none without a function: %j', (settings) => {
  expect(withCast(OBJECT, settings)).toBe(OBJECT);
});
