// SPDX-License-Identifier: Apache-2.0
// One copy of each repeated text: 100,000 endpoints name the same few nodes and zones.

/** Nodes and zones of the largest clusters fit several times. */
export const MAX_TEXTS = 65_536;

export type Intern = (value: unknown) => unknown;

/** Texts come back as their first copy, everything else as it is. Forgets all when full: no leak. */
export function createIntern(known = new Map<string, string>()): Intern {
  return (value) => {
    if (typeof value !== 'string') return value;
    const found = known.get(value);
    if (found !== undefined) return found;
    if (known.size >= MAX_TEXTS) known.clear();
    known.set(value, value);
    return value;
  };
}
