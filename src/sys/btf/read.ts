// SPDX-License-Identifier: Apache-2.0
// Reads a table of BTF (the kernel's Documentation/bpf/btf.rst) a page at a time: that of a kernel has 5 MiB.

/** More are never returned by one read of a file in sysfs. */
const PAGE = 4096;
const WORD = 4;
/** Searched for names at a time. */
const WINDOW = 16 * PAGE;
/** Little-endian, version 1. */
const MAGIC = 0x01eb9f;
const MAX_NAME_LENGTH = 64;

/** Fills `into` with the bytes from a position on; returns how many there were. */
export type ReadAt = (into: Uint8Array, position: number) => number;
/** The word at a position that is a multiple of four. Throws behind the end. */
export type Words = (position: number) => number;

export function wordsOf(read: ReadAt): Words {
  const page = Buffer.alloc(PAGE);
  // A view, because a kernel has half a million of these words.
  const words = new Uint32Array(page.buffer, page.byteOffset, PAGE / WORD);
  let from = 0;
  let count = 0;
  return (position) => {
    if (position < from || position + WORD > from + count) {
      from = position - (position % PAGE);
      count = read(page, from);
      if (position + WORD > from + count) throw new Error('the BTF is cut short');
    }
    return words[(position - from) / WORD] ?? 0;
  };
}

export interface Section {
  readonly start: number;
  readonly end: number;
}

/** Throws if it is none of this byte order and version. */
export function sectionsOf(word: Words): { readonly types: Section; readonly strings: Section } {
  if ((word(0) & 0xffffff) !== MAGIC) throw new Error('no BTF of version 1');
  const section = (at: number): Section => {
    const start = word(WORD) + word(at);
    return { start, end: start + word(at + WORD) };
  };
  return { types: section(8), strings: section(16) };
}

/** Where each of the names is in the section, from its start on; names that are not there are left out. */
export function findNames(
  read: ReadAt,
  { start, end }: Section,
  names: readonly string[],
): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  const wanted = new Map(names.map((name) => [name, Buffer.from(`\0${name}\0`)]));
  // What a window ends with is kept before the next: names cross the boundary. At first, it is as if a name had ended.
  const bytes = Buffer.alloc(MAX_NAME_LENGTH + WINDOW);
  for (let at = start; at < end && wanted.size > 0; ) {
    const count = Math.min(fill(read, bytes.subarray(MAX_NAME_LENGTH), at), end - at);
    if (count === 0) break;
    const seen = bytes.subarray(0, MAX_NAME_LENGTH + count);
    for (const [name, text] of wanted) {
      const index = seen.indexOf(text);
      if (index < 0) continue;
      found.set(name, at - start + index + 1 - MAX_NAME_LENGTH);
      wanted.delete(name);
    }
    bytes.copyWithin(0, count, MAX_NAME_LENGTH + count);
    at += count;
  }
  return found;
}

/** Returns how many bytes there were. */
function fill(read: ReadAt, into: Uint8Array, position: number): number {
  let count = 0;
  while (count < into.length) {
    const more = read(into.subarray(count), position + count);
    if (more === 0) break;
    count += more;
  }
  return count;
}
