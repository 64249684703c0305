// SPDX-License-Identifier: Apache-2.0
// Whose KUBE- chains these are: a kube-proxy's, or those of fairlead's iptables engine, which serve or are only kept
// for connections that they translated.
import type { HeldTables } from '../iptables/diff/text.ts';
import { isFairleads, OF_FAIRLEAD } from './chains.ts';

export type Owner = 'fairlead' | 'fairlead, retired' | 'other';

/** kube-proxy, which has taken the chains over, leaves ours without a jump. */
export function ownerOf(held: HeldTables): Owner {
  const filter = held.get('filter') ?? new Map<string, string>();
  if (isFairleads(filter)) return 'fairlead';
  const isRetired = filter.has(OF_FAIRLEAD) && !filter.has('KUBE-SERVICES');
  return isRetired ? 'fairlead, retired' : 'other';
}
