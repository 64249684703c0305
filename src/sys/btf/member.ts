// SPDX-License-Identifier: Apache-2.0
// Finds functions, and members of structs, in a table of BTF, also in the anonymous structs and unions that are part of it. Pure.
import { findNames, type ReadAt, type Section, sectionsOf, type Words, wordsOf } from './read.ts';

const STRUCT = 4;
const UNION = 5;
const FUNCTION = 12;
/** Words behind the first three of a type, by its kind; those of LISTS once for each of its elements. */
const WORDS: Readonly<Record<number, number>> = { 1: 1, 3: 3, 14: 1, 17: 1 };
const LISTS: Readonly<Record<number, number>> = { 4: 3, 5: 3, 6: 2, 13: 2, 15: 3, 19: 3 };
const LAST_KIND = 19;
const HEAD = 12;
const MEMBER = 12;
const ANONYMOUS = 0;

export interface Member {
  readonly struct: string;
  readonly member: string;
}

export interface Found {
  /** Of the members, in bits and in their order. undefined: there is none, or structs of that name have it at different offsets. */
  readonly offsets: readonly (number | undefined)[];
  /** Those of the names, of whatever they are, that there are. */
  readonly names: readonly string[];
  /** Ids of the functions, in their order. undefined: there is none, or several. */
  readonly functions: readonly (number | undefined)[];
}

/** In one pass. Throws if it is no BTF. */
export function lookUp(
  read: ReadAt,
  {
    members,
    names: others = [],
    functions = [],
  }: {
    readonly members: readonly Member[];
    readonly names?: readonly string[];
    readonly functions?: readonly string[];
  },
): Found {
  const word = wordsOf(read);
  const { types, strings } = sectionsOf(word);
  const names = findNames(read, strings, [
    ...new Set([
      ...members.flatMap(({ struct, member }) => [struct, member]),
      ...others,
      ...functions,
    ]),
  ]);
  const { positions, structs, ids } = findTypes(word, types, new Set(names.values()));
  const offsets = members.map(({ struct, member }) => {
    const [structName, name] = [names.get(struct), names.get(member)];
    if (structName === undefined || name === undefined) return undefined;
    const found = structs.get(structName) ?? [];
    const all = new Set(found.map((at) => offsetIn({ word, positions, name }, at)));
    return all.size === 1 ? [...all][0] : undefined;
  });
  const idOf = (name: string): number | undefined => {
    const found = ids.get(names.get(name) ?? 0) ?? [];
    return found.length === 1 ? found[0] : undefined;
  };
  return {
    offsets,
    names: others.filter((name) => names.has(name)),
    functions: functions.map(idOf),
  };
}

const kindOf = (info: number): number => (info >>> 24) & 0x1f;
const lengthOf = (info: number): number => info & 0xffff;

function sizeOf(info: number): number {
  const kind = kindOf(info);
  if (kind > LAST_KIND) throw new Error(`BTF of kind ${kind}`);
  return HEAD + 4 * ((WORDS[kind] ?? 0) + (LISTS[kind] ?? 0) * lengthOf(info));
}

interface Types {
  /** Of every type, by its id. */
  readonly positions: Uint32Array;
  /** Positions of those with the names. */
  readonly structs: ReadonlyMap<number, readonly number[]>;
  /** Ids of functions with the names. */
  readonly ids: ReadonlyMap<number, readonly number[]>;
}

function findTypes(word: Words, { start, end }: Section, names: ReadonlySet<number>): Types {
  const positions = new Uint32Array(1 + (end - start) / HEAD);
  const structs = new Map<number, number[]>();
  const ids = new Map<number, number[]>();
  let id = 1; // 0 is void
  for (let at = start; at < end; id += 1) {
    positions[id] = at;
    const info = word(at + 4);
    const kind = kindOf(info);
    if ((kind === STRUCT || kind === FUNCTION) && names.has(word(at))) {
      const [into, what] = kind === STRUCT ? [structs, at] : [ids, id];
      into.set(word(at), [...(into.get(word(at)) ?? []), what]);
    }
    at += sizeOf(info);
  }
  return { positions, structs, ids };
}

interface Search extends Pick<Types, 'positions'> {
  readonly word: Words;
  readonly name: number;
}

function offsetIn(search: Search, struct: number): number | undefined {
  const { word, positions, name } = search;
  const info = word(struct + 4);
  if (kindOf(info) !== STRUCT && kindOf(info) !== UNION) return undefined;
  // With bit fields, the upper byte is their size.
  const mask = info >>> 31 === 1 ? 0xffffff : 0xffffffff;
  for (let index = 0; index < lengthOf(info); index += 1) {
    const at = struct + HEAD + index * MEMBER;
    const offset = (word(at + 8) & mask) >>> 0;
    if (word(at) === name) return offset;
    if (word(at) !== ANONYMOUS) continue;
    const inner = offsetIn(search, positions[word(at + 4)] ?? 0);
    if (inner !== undefined) return offset + inner;
  }
  return undefined;
}
