// SPDX-License-Identifier: Apache-2.0
// Runs of set lines: first fit by exact size, then from the untouched end, then from merged holes.
// Pure bookkeeping.

export interface LinePool {
  readonly capacity: number;
  used(): number;
  /** First line of a run of `lines` lines, or undefined if no hole is long enough. */
  take(lines: number): number | undefined;
  give(first: number, lines: number): void;
}

export interface LineRun {
  readonly first: number;
  readonly lines: number;
}

/** @param taken runs the kernel's frontends already refer to (read back at start) */
export function createLinePool(capacity: number, taken: Iterable<LineRun> = []): LinePool {
  const isUsed = new Uint8Array(capacity);
  const holes = new Map<number, number[]>();
  let end = 0;
  let used = 0;

  const mark = (first: number, lines: number, value: 0 | 1): void => {
    isUsed.fill(value, first, first + lines);
    used += value === 1 ? lines : -lines;
  };

  const addHole = (first: number, lines: number): void => {
    const sameSize = holes.get(lines);
    if (sameSize === undefined) holes.set(lines, [first]);
    else sameSize.push(first);
  };

  /** Forgets how holes came to be and finds them anew as maximal runs below `end`. */
  const mergeHoles = (): void => {
    holes.clear();
    for (let line = 0; line < end; ) {
      if (isUsed[line] === 1) {
        line++;
        continue;
      }
      const first = line;
      while (line < end && isUsed[line] === 0) line++;
      if (line === end) end = first;
      else addHole(first, line - first);
    }
  };

  const takeFromHoles = (lines: number): number | undefined => {
    let best: number | undefined;
    for (const [size, firsts] of holes) {
      if (size >= lines && firsts.length > 0 && (best === undefined || size < best)) best = size;
    }
    const first = best === undefined ? undefined : holes.get(best)?.pop();
    if (first === undefined || best === undefined) return undefined;
    if (best > lines) addHole(first + lines, best - lines);
    return first;
  };

  const takeFromEnd = (lines: number): number | undefined => {
    if (end + lines > capacity) return undefined;
    const first = end;
    end += lines;
    return first;
  };

  const taking = [...taken];
  for (const run of taking) {
    end = Math.max(end, run.first + run.lines);
    mark(run.first, run.lines, 1);
  }
  if (taking.length > 0) mergeHoles();

  return {
    capacity,
    used: () => used,
    take(lines) {
      let first = holes.get(lines)?.pop() ?? takeFromEnd(lines);
      if (first === undefined) {
        mergeHoles();
        first = takeFromHoles(lines) ?? takeFromEnd(lines);
      }
      if (first !== undefined) mark(first, lines, 1);
      return first;
    },
    give(first, lines) {
      mark(first, lines, 0);
      addHole(first, lines);
    },
  };
}
