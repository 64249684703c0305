// SPDX-License-Identifier: Apache-2.0
// Rules of iptables as values: what is rendered from the plan, what is printed for iptables-restore, what is parsed
// from iptables-save, and what tests trace packets through. Types only. The layout is kube-proxy's
// (pkg/proxy/iptables/proxier.go): the same chains, comments and order.
import type { Family, Protocol } from '../../../model/types.ts';

export type TableName = 'filter' | 'nat' | 'mangle';

/** A match that may be negated with `!`. */
export interface Prefix {
  /** Canonical, always with its length, as iptables-save prints it: `10.96.0.10/32`. */
  readonly prefix: string;
  readonly not?: true;
}

export type ConnectionState = 'INVALID' | 'NEW' | 'RELATED' | 'ESTABLISHED' | 'DNAT';

/** xt_recent, the list of clients of one endpoint (session affinity). */
export interface Recent {
  readonly list: string;
  /** `check`: --rcheck --seconds N --reap; `set`: --set. */
  readonly action: { readonly kind: 'check'; readonly seconds: number } | { readonly kind: 'set' };
}

export type Target =
  /** Also to ACCEPT, DROP and RETURN. */
  | { readonly kind: 'jump'; readonly chain: string }
  | { readonly kind: 'reject' }
  /** The address and port as on the command line: `10.1.1.5:8080`, `[fd00::5]:8080`. */
  | { readonly kind: 'dnat'; readonly to: string }
  | { readonly kind: 'masquerade'; readonly isRandomFully: boolean }
  /** MARK: `(mark & ~mask) ^ value` (--set-xmark value/mask). */
  | { readonly kind: 'set-mark'; readonly value: number; readonly mask: number };

/** All matches must hold; a rule without a target only counts. */
export interface Rule {
  readonly source?: Prefix;
  readonly destination?: Prefix;
  /** A name, or a prefix of names that ends in `+`. */
  readonly inInterface?: { readonly name: string; readonly not?: true };
  readonly protocol?: Protocol;
  readonly comment?: string;
  /** xt_conntrack --ctstate: any of them. */
  readonly states?: { readonly any: readonly ConnectionState[]; readonly not?: true };
  /** xt_addrtype: the address is one of this node's. */
  readonly isSourceLocal?: true;
  readonly isDestinationLocal?: true;
  /** xt_mark: `mark & mask == value`. */
  readonly mark?: { readonly value: number; readonly mask: number; readonly not?: true };
  /** Host order; the protocol is set, too. */
  readonly destinationPort?: number;
  /** xt_statistic --mode random, 0..1. */
  readonly probability?: number;
  readonly recent?: Recent;
  /** xt_nfacct: counts matches in the object of this name. */
  readonly accounting?: string;
  /** Of a rule that somebody else wrote: matches and targets that are none of these, as printed. */
  readonly other?: string;
  readonly target?: Target;
}

export interface Chain {
  readonly name: string;
  /** In order. */
  readonly rules: readonly Rule[];
}

/**
 * A rule in a chain that is not ours alone, such as the jump from PREROUTING to KUBE-SERVICES; put before all others.
 * Those of one chain are listed as they stand in it, the first one on top.
 */
export interface Jump {
  readonly from: string;
  readonly rule: Rule;
}

export interface Table {
  readonly name: TableName;
  /** In the order in which they are printed; chains that are not rendered are not ours to touch. */
  readonly chains: readonly Chain[];
  readonly jumps: readonly Jump[];
}

/** All rules of one family: mangle, filter, nat. */
export interface Ruleset {
  readonly family: Family;
  readonly tables: readonly Table[];
}
