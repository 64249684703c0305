// SPDX-License-Identifier: Apache-2.0
// What many objects say in the same words is kept once: 10,000 Services have the same one port. Sharing saves
// memory and decides nothing.
import { createTraitsShare, type ShareTraits } from './endpoints/traits.ts';
import type { ServicePort, SlicePort } from './types.ts';

/** Longer lists are too rare to look for. */
const MAX_ITEMS = 4;
export const MAX_LISTS = 4_096;

/** One for all objects of a planner. */
export interface Sharing {
  readonly traits: ShareTraits;
  readonly servicePorts: ShareList<ServicePort>;
  readonly slicePorts: ShareList<SlicePort>;
}

export const createSharing = (): Sharing => ({
  traits: createTraitsShare(),
  servicePorts: createListShare(({ name, protocol, port, nodePort, index }) =>
    [name, protocol, port, nodePort, index].join('/'),
  ),
  slicePorts: createListShare(({ name, protocol, port }) => [name, protocol, port].join('/')),
});

/** Gives the first list that says the same. */
export type ShareList<T> = (list: readonly T[]) => readonly T[];

/** `textOf` must differ where items do, and have no comma. Forgets all when full. */
export function createListShare<T>(textOf: (item: T) => string): ShareList<T> {
  const known = new Map<string, readonly T[]>();
  return (list) => {
    if (list.length > MAX_ITEMS) return list;
    const text = list.map(textOf).join(',');
    const found = known.get(text);
    if (found !== undefined) return found;
    if (known.size >= MAX_LISTS) known.clear();
    known.set(text, list);
    return list;
  };
}
