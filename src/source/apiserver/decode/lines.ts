// SPDX-License-Identifier: Apache-2.0
// Bytes as they come -> whole lines. Only an unfinished line is kept, never the body.
import { LIMITS } from '../limits.ts';

const NEWLINE = 0x0a;

export interface LineSplitter {
  /** The lines that this chunk completes, without their ends; empty lines are left out. */
  push(chunk: Uint8Array): readonly Uint8Array[];
  /** Bytes of a line that has not ended: not 0 at the end of a stream = it was cut. */
  pendingBytes(): number;
}

/** Throws RangeError for a line longer than any API object. Linear. */
export function createLineSplitter(): LineSplitter {
  let parts: Uint8Array[] = [];
  let pendingBytes = 0;
  const keep = (part: Uint8Array): void => {
    if (part.length === 0) return;
    pendingBytes += part.length;
    if (pendingBytes > LIMITS.objectBytes) throw new RangeError('line too long for an API object');
    parts.push(part);
  };
  return {
    push(chunk) {
      const lines: Uint8Array[] = [];
      let start = 0;
      for (;;) {
        const end = chunk.indexOf(NEWLINE, start);
        if (end === -1) break;
        keep(chunk.subarray(start, end));
        if (pendingBytes > 0) lines.push(wholeOf(parts));
        parts = [];
        pendingBytes = 0;
        start = end + 1;
      }
      keep(chunk.subarray(start));
      return lines;
    },
    pendingBytes: () => pendingBytes,
  };
}

/** Bytes that came in pieces; copied only if there are several. */
export function wholeOf(parts: readonly Uint8Array[]): Uint8Array {
  const [only] = parts;
  return parts.length === 1 && only !== undefined ? only : Buffer.concat(parts);
}
