// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import { createKeySet } from '../../../../../src/dataplane/bpf/flows/key-set.ts';
import { encodeTuple } from '../../../../../src/dataplane/bpf/flows/tuple.ts';
import { tuple } from '../../../../support/dataplane/flow-bytes.ts';

const key = (number: number): Uint8Array =>
  encodeTuple(tuple(`203.0.${number >> 8}.${number & 255}:4000`, '192.0.2.10:80'), 'IPv4');

test('has what was added, and nothing else', () => {
  const set = createKeySet();
  for (let number = 0; number < 20_000; number += 2) {
    set.add(key(number));
    set.add(key(number));
  }
  const found = Array.from({ length: 20_000 }, (_, number) => set.has(key(number)));
  expect(found.filter((isIn) => isIn)).toHaveLength(10_000);
  expect(found.every((isIn, number) => isIn === (number % 2 === 0))).toBe(true);
});

test('zeros are a key', () => {
  const set = createKeySet();
  expect(set.has(new Uint8Array(16))).toBe(false);
  set.add(new Uint8Array(16));
  expect(set.has(new Uint8Array(16))).toBe(true);
  expect(set.has(new Uint8Array(40))).toBe(false);
});
