// SPDX-License-Identifier: Apache-2.0
// Which of kube-proxy's rules have to stay for connections that it has translated: those of iptables as long as nothing
// else makes the kernel track connections, those of nftables also as long as no other chain of type nat is left.
import { FAMILIES, type Family } from '../../model/types.ts';
import type { HeldTables } from '../iptables/state/diff/text.ts';
import { NFT_FAMILY, type NftState } from './nftables.ts';
import { type RuleLeftovers, remainingRules } from './rules.ts';
import { isTracking, neededForTracking } from './tracking.ts';

/** The rules of one family in one iptables. */
export interface FoundRules {
  readonly family: Family;
  /** `iptables-legacy IPv4` */
  readonly where: string;
  readonly held: HeldTables;
  readonly found: RuleLeftovers;
}

/** The reason for each family in which something has to stay. */
export interface Needed {
  readonly rules: ReadonlyMap<Family, string>;
  readonly nft: ReadonlyMap<Family, string>;
}

/** @param translated connections of each family; undefined: the kernel does not list them */
export function neededBy(
  rules: readonly FoundRules[],
  nft: NftState,
  translated: ReadonlyMap<Family, number> | undefined,
): Needed {
  const isTracked = (family: Family): boolean =>
    nft.othersTrack.has(family) ||
    rules.some(
      (one) => one.family === family && remainingRules(one.held, one.found).some(isTracking),
    );
  /** Of iptables the table stays, with its chains of type nat. */
  const isTranslating = (family: Family): boolean =>
    nft.othersNat.has(family) ||
    rules.some((one) => one.family === family && (one.held.get('nat')?.size ?? 0) > 0);
  const hasTable = (family: Family): boolean =>
    nft.tables.some((table) => table.family === NFT_FAMILY[family]);
  const tracked = FAMILIES.filter(isTracked);
  const ofRules = neededForTracking({ translated, others: new Set(tracked) });
  return {
    // What stays of a table of nftables is enough for both.
    rules: new Map([...ofRules].filter(([family]) => !hasTable(family))),
    nft: neededForTracking({ translated, others: new Set(tracked.filter(isTranslating)) }),
  };
}
