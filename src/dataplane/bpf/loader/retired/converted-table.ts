// SPDX-License-Identifier: Apache-2.0
// A flow table in the layout of another version, as one of this version's. Nothing can be put into it. Pure.

import type { ElementBatch, FlowTable } from '../../flows/flow-tables.ts';
import { converter, type Side } from '../migration/fields.ts';

export interface TableLayout {
  readonly key: Side;
  readonly value: Side;
}

export function convertedTable(
  table: Pick<FlowTable, 'name' | 'get' | 'delete' | 'batches'>,
  former: TableLayout,
  own: TableLayout,
): FlowTable {
  const toFormer = converter(own.key, former.key);
  const key = converter(former.key, own.key);
  const value = converter(former.value, own.value);
  return {
    name: table.name,
    keySize: own.key.bytes,
    valueSize: own.value.bytes,
    get: (wanted) => {
      const found = table.get(toFormer(wanted));
      return found && value(found);
    },
    put: () => {
      throw new TypeError(`${table.name} has another layout: nothing can be put into it`);
    },
    delete: (wanted) => table.delete(toFormer(wanted)),
    *batches() {
      for (const { keys, values, count } of table.batches()) {
        yield {
          keys: each(keys, { count, size: former.key.bytes, bytes: own.key.bytes }, key),
          values: each(values, { count, size: former.value.bytes, bytes: own.value.bytes }, value),
          count,
        } satisfies ElementBatch;
      }
    },
  };
}

interface Elements {
  readonly count: number;
  /** Of each, before and after. */
  readonly size: number;
  readonly bytes: number;
}

function each(
  elements: Uint8Array,
  { count, size, bytes }: Elements,
  convert: (one: Uint8Array) => Uint8Array,
): Uint8Array {
  const converted = new Uint8Array(count * bytes);
  for (let at = 0; at < count; at += 1) {
    converted.set(convert(elements.subarray(at * size, (at + 1) * size)), at * bytes);
  }
  return converted;
}
