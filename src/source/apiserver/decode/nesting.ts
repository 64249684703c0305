// SPDX-License-Identifier: Apache-2.0
// The JSON scanner: follows strings and brackets over bytes that may come in pieces, without parsing them. All
// bytes of a cluster pass here.

export const QUOTE = 0x22;
const BACKSLASH = 0x5c;
/** With the bit that sets them apart, [ is { and ] is }. No other byte becomes one of them. */
const BRACKET_BIT = 0x20;
const OPEN = 0x7b;
const CLOSE = 0x7d;

/** Between two bytes. */
export interface Nesting {
  /** Brackets that are open; 0 = before the first, or behind the one that closes it. */
  depth: number;
  isInString: boolean;
  /** The next byte belongs to a backslash. */
  isEscaped: boolean;
}

export const outside = (): Nesting => ({ depth: 0, isInString: false, isEscaped: false });

/** One byte further, for what must look at each byte by itself. */
export function stepNesting(nesting: Nesting, byte: number): void {
  if (nesting.isInString) {
    if (nesting.isEscaped) nesting.isEscaped = false;
    else if (byte === BACKSLASH) nesting.isEscaped = true;
    else if (byte === QUOTE) nesting.isInString = false;
    return;
  }
  if (byte === QUOTE) nesting.isInString = true;
  else if ((byte | BRACKET_BIT) === OPEN) nesting.depth += 1;
  else if ((byte | BRACKET_BIT) === CLOSE) nesting.depth -= 1;
}

/** Goes on from `nesting`, which it moves along; returns the index behind the bracket that closes all, or the length. */
export function walkNested(bytes: Uint8Array, from: number, nesting: Nesting): number {
  const end = bytes.length;
  let { depth, isInString } = nesting;
  let index = nesting.isEscaped ? from + 1 : from;
  while (index < end) {
    // Most bytes are in strings. Locals and one comparison more each: this is half of what a list costs.
    while (isInString && index < end) {
      const byte = bytes[index];
      index += 1;
      if (byte === QUOTE) isInString = false;
      else if (byte === BACKSLASH) index += 1;
    }
    if (index >= end) break;
    const byte = bytes[index] ?? 0;
    index += 1;
    if (byte === QUOTE) isInString = true;
    else if (byte > QUOTE) {
      const bracket = byte | BRACKET_BIT;
      if (bracket === OPEN) depth += 1;
      else if (bracket === CLOSE) {
        depth -= 1;
        if (depth === 0) break;
      }
    }
  }
  nesting.depth = depth;
  nesting.isInString = isInString;
  nesting.isEscaped = index > end;
  return Math.min(index, end);
}
