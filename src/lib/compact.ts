// SPDX-License-Identifier: Apache-2.0
// For values that are kept by the ten thousand: texts and lists in the fewest bytes the engine can hold them in.

const NOTHING: readonly never[] = Object.freeze([]);

/** The parts as one text. What `+` and templates make keeps its parts alive as a tree, which weighs twice as much. */
export const flatText = (...parts: readonly string[]): string => parts.join('');

/** The same items without the room that `push` leaves for more: 17 places after the first. Empty lists are one list. */
export const exactList = <T>(list: readonly T[]): readonly T[] =>
  list.length === 0 ? NOTHING : list.slice();
