// SPDX-License-Identifier: Apache-2.0
// Looking into parsed JSON of which nothing is known, and comparing plain values.

export type JsonRecord = Readonly<Record<string, unknown>>;

export const isRecord = (value: unknown): value is JsonRecord =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The record, or an empty one: for optional sections whose absence means "all defaults". */
const EMPTY: JsonRecord = Object.freeze({});
export const recordOrEmpty = (value: unknown): JsonRecord => (isRecord(value) ? value : EMPTY);

/** Own member only: a label named `constructor` must not be found where there is none. */
export const member = (record: JsonRecord, key: string): unknown =>
  Object.hasOwn(record, key) ? record[key] : undefined;

/** JSON's null and absence mean the same in Kubernetes objects. */
export const isAbsent = (value: unknown): value is undefined | null =>
  value === undefined || value === null;

/** A value as short text for people: `"abc"`, `70000`, `an object`. Never longer than about 80 characters. */
export function shown(value: unknown): string {
  if (typeof value === 'string') {
    return JSON.stringify(value.length > 70 ? `${value.slice(0, 70)}…` : value);
  }
  if (Array.isArray(value)) return 'a list';
  return isRecord(value) ? 'an object' : String(value);
}

/** Structural equality of plain values: records, arrays, Maps, primitives. Linear; shared parts cost nothing. */
export function isSame(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (a instanceof Map || b instanceof Map) {
    return a instanceof Map && b instanceof Map && isSameMap(a, b);
  }
  if (Array.isArray(a)) return Array.isArray(b) && isSameList(a, b);
  return isRecord(a) && isRecord(b) && isSameRecord(a, b);
}

// Loops: comparing is most of what a source does with objects that did not change.

function isSameList(a: readonly unknown[], b: readonly unknown[]): boolean {
  if (a.length !== b.length) return false;
  for (let index = 0; index < a.length; index += 1) {
    if (!isSame(a[index], b[index])) return false;
  }
  return true;
}

function isSameRecord(a: JsonRecord, b: JsonRecord): boolean {
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  for (const key of keys) {
    if (!Object.hasOwn(b, key) || !isSame(a[key], b[key])) return false;
  }
  return true;
}

function isSameMap(a: ReadonlyMap<unknown, unknown>, b: ReadonlyMap<unknown, unknown>): boolean {
  if (a.size !== b.size) return false;
  for (const [key, value] of a) if (!b.has(key) || !isSame(value, b.get(key))) return false;
  return true;
}
