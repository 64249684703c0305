// SPDX-License-Identifier: Apache-2.0
// One record for all endpoints of which the same is said: 100,000 endpoints differ in their addresses, and
// else in little more than their nodes. Sharing saves memory and decides nothing.
import type { EndpointTraits } from '../types.ts';

/** Nodes of the largest clusters fit several times; each has few kinds of endpoints at a time. */
export const MAX_NODES = 16_384;
export const MAX_TRAITS_PER_NODE = 32;

/** Gives the first record that says the same. */
export type ShareTraits = (traits: EndpointTraits) => EndpointTraits;

/** Forgets what it holds when that is too much, and begins again: records of nodes long gone must not pile up. */
export function createTraitsShare(): ShareTraits {
  const byNode = new Map<string | undefined, EndpointTraits[]>();
  return (traits) => {
    const known = byNode.get(traits.nodeName);
    const found = known === undefined ? undefined : findSame(known, traits);
    if (found !== undefined) return found;
    if (known !== undefined && known.length < MAX_TRAITS_PER_NODE) {
      known.push(traits);
    } else {
      if (byNode.size >= MAX_NODES) byNode.clear();
      byNode.set(traits.nodeName, [traits]);
    }
    return traits;
  };
}

/** A bare loop: what it would take of closures or iterators is garbage for every endpoint there is. */
function findSame(
  known: readonly EndpointTraits[],
  traits: EndpointTraits,
): EndpointTraits | undefined {
  for (let at = 0; at < known.length; at += 1) {
    const other = known[at];
    if (other !== undefined && isSameTraits(other, traits)) return other;
  }
  return undefined;
}

const isSameTraits = (a: EndpointTraits, b: EndpointTraits): boolean =>
  a.isReady === b.isReady &&
  a.isServing === b.isServing &&
  a.isTerminating === b.isTerminating &&
  a.nodeName === b.nodeName &&
  a.zone === b.zone &&
  isSameNames(a.zoneHints, b.zoneHints) &&
  isSameNames(a.nodeHints, b.nodeHints);

const isSameNames = (a: readonly string[], b: readonly string[]): boolean =>
  a === b || (a.length === b.length && a.every((name, index) => name === b[index]));
