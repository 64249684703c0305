// SPDX-License-Identifier: Apache-2.0
// A flow table of another version: found by this version's keys, read as this version's elements.
import { expect, test } from 'vitest';
import { elementsIn } from '../../../../../../src/dataplane/bpf/flows/flow-tables.ts';
import { convertedTable } from '../../../../../../src/dataplane/bpf/loader/retired/converted-table.ts';
import { memoryFlowTable } from '../../../../../support/dataplane/flow-bytes.ts';

const FORMER = {
  key: { fields: 'added 0 8,port 8 16', bytes: 3 },
  value: { fields: 'added 0 16,seen 16 32,state 48 8', bytes: 7 },
};
const OWN = {
  key: { fields: 'port 0 16', bytes: 2 },
  value: { fields: 'state 0 8,seen 8 32', bytes: 5 },
};

test('keys and values are converted both ways, batch by batch', () => {
  const former = memoryFlowTable('fl_flow4', 3, 7);
  for (const n of [1, 2, 3]) {
    former.put(Uint8Array.of(0, n, 80), Uint8Array.of(9, 9, 1, 2, 3, 4, n));
  }
  const table = convertedTable(former, FORMER, OWN);
  expect(table).toMatchObject({ name: 'fl_flow4', keySize: 2, valueSize: 5 });
  expect([...elementsIn(table)]).toEqual(
    [1, 2, 3].map((n) => ({
      key: new Uint8Array([n, 80]),
      value: new Uint8Array([n, 1, 2, 3, 4]),
    })),
  );
  expect(table.get(Uint8Array.of(2, 80))).toEqual(Uint8Array.of(2, 1, 2, 3, 4));
  expect(table.get(Uint8Array.of(4, 80))).toBeUndefined();
});

test('elements can be deleted, and none put', () => {
  const former = memoryFlowTable('fl_flow4', 3, 7);
  former.put(Uint8Array.of(0, 1, 80), new Uint8Array(7));
  const table = convertedTable(former, FORMER, OWN);
  expect(() => table.put(new Uint8Array(2), new Uint8Array(5))).toThrow('nothing can be put');
  expect([table.delete(Uint8Array.of(1, 80)), former.size()]).toEqual([true, 0]);
  expect(table.delete(Uint8Array.of(1, 80))).toBe(false);
});
