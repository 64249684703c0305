// SPDX-License-Identifier: Apache-2.0
// What becomes of the maps of connections: a map whose size follows from the number of connections cannot be copied by key.
import { expect, test } from 'vitest';
import { CONN_MAPS } from '../../../../../src/engines/bpf/conn/conn-table.ts';
import { connSizes } from '../../../../../src/engines/bpf/conn/sizes.ts';
import type { PinnedMap } from '../../../../../src/engines/bpf/layout/versions.ts';
import { CARRYING } from '../../../../../src/engines/bpf/migration/policy.ts';

const namesOf = (carrying: string): readonly string[] =>
  (Object.keys(CARRYING) as PinnedMap[]).filter((name) => CARRYING[name] === carrying).toSorted();

test('a program carries every map that grows with the table, and no other', () => {
  expect(namesOf('table')).toEqual(Object.keys(connSizes(1)).toSorted());
});

test('the counts of the table are kept: the carry takes off what it has counted twice', () => {
  const others = CONN_MAPS.filter((name) => CARRYING[name] !== 'table');
  expect(others.map((name) => [name, CARRYING[name]])).toEqual([['fl_conn_count', 'counters']]);
});
