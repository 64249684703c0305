// SPDX-License-Identifier: Apache-2.0
// A hash table of the kernel that follows rows which are desired.
import type { RowDifference, RowFailure, RowTarget } from '../../tracked-table.ts';
import type { HashTable } from '../state/tables.ts';

/** How a key and a value are written. */
export interface RowCodec<K, V> {
  encodeKey(key: K): Uint8Array;
  decodeKey(bytes: Uint8Array): K;
  encodeValue(value: V): Uint8Array;
  /** Only what the agent writes of it. */
  decodeValue(bytes: Uint8Array): V;
}

export type RowTable = Pick<HashTable, 'name' | 'readAll' | 'put' | 'delete'>;

export const rowsOf = <K, V>(table: RowTable, codec: RowCodec<K, V>): RowTarget<K, V> => ({
  read: () =>
    table
      .readAll()
      .map(({ key, value }) => [codec.decodeKey(key), codec.decodeValue(value)] as const),
  put: (rows) =>
    table.put(
      rows.map(([key]) => codec.encodeKey(key)),
      rows.map(([, value]) => codec.encodeValue(value)),
    ),
  delete: (keys) => table.delete(keys.map((key) => codec.encodeKey(key))),
});

/** Tells each of them once, until it is as it should be. */
export function warnOfRows<K, V>(
  log: { readonly warn: (fields: object, text: string) => void },
  { name }: Pick<RowTable, 'name'>,
  failed: readonly RowFailure<K, V>[],
  consequence: (failure: RowFailure<K, V>) => string,
): void {
  for (const failure of failed) {
    if (failure.isRepeated) continue;
    const { key, code } = failure;
    log.warn({ address: key, map: name, code }, consequence(failure));
  }
}

/** @param stray of a row that nothing asks for */
export const differenceText = ({ kind }: RowDifference<unknown>, stray: string): string =>
  kind === 'stray' ? stray : kind === 'missing' ? 'is missing' : 'differs';
