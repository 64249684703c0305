// SPDX-License-Identifier: Apache-2.0
// A walk that goes from each to each of the others exactly once, and ends where it began: one start serves for two switches.

export function circuitOf<T>(
  all: readonly T[],
  isWanted: (from: T, to: T) => boolean = isOther,
): T[] {
  const left = new Map(all.map((from) => [from, all.filter((to) => isWanted(from, to))]));
  const path = all.slice(0, 1);
  const found: T[] = [];
  for (let at = path.at(-1); at !== undefined; at = path.at(-1)) {
    const next = left.get(at)?.shift();
    if (next !== undefined) path.push(next);
    else found.unshift(...path.splice(-1));
  }
  return found;
}

const isOther = <T>(from: T, to: T): boolean => from !== to;
