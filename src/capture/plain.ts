// SPDX-License-Identifier: Apache-2.0
// Values of the agent as JSON and back: Maps and Sets by a mark, other iterables as lists. Pure.
import { isRecord } from '../lib/json.ts';

const MAP = '$map';
const SET = '$set';

const isMap = (value: object): value is ReadonlyMap<unknown, unknown> =>
  value instanceof Map || ('withChanges' in value && 'entries' in value);

const isIterable = (value: object): value is Iterable<unknown> => Symbol.iterator in value;

/** Functions and what is undefined are left out, as in JSON. */
export function plainOf(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (isMap(value)) return { [MAP]: [...value].map((entry) => entry.map(plainOf)) };
  if (value instanceof Set) return { [SET]: [...value].map(plainOf) };
  if (isIterable(value)) return [...value].map(plainOf);
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, plainOf(member)]));
}

/** What `plainOf` was given, from JSON. */
export function revived(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(revived);
  if (!isRecord(value)) return value;
  const { [MAP]: entries, [SET]: members } = value;
  if (Array.isArray(entries))
    return new Map(entries.map(([key, one]) => [revived(key), revived(one)]));
  if (Array.isArray(members)) return new Set(members.map(revived));
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, revived(member)]));
}
