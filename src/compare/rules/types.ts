// SPDX-License-Identifier: Apache-2.0
// The rules of one address family as values, whichever program wrote them: iptables or nftables. Types only.
import type { Family, Protocol } from '../../model/types.ts';
import type { Range } from './ranges.ts';

export type Hook = 'prerouting' | 'input' | 'forward' | 'output' | 'postrouting';
export type Side = 'source' | 'destination';
export type ConnectionState = 'NEW' | 'ESTABLISHED' | 'RELATED' | 'INVALID' | 'DNAT';

/** What a set or map is asked for: `ip daddr . meta l4proto . th dport`. */
export type KeyPart = 'source' | 'destination' | 'protocol' | 'port';

/** Host order; both ends belong to it. */
export interface PortRange {
  readonly from: number;
  readonly to: number;
}

/** All tests of a rule must hold. */
export type Test =
  | {
      readonly kind: 'address';
      readonly side: Side;
      readonly ranges: readonly Range[];
      readonly not: boolean;
    }
  /** The address is one of this node's. */
  | { readonly kind: 'local'; readonly side: Side; readonly not: boolean }
  /** The device by which the packet came in; `veth*` is a prefix of names. */
  | { readonly kind: 'device'; readonly name: string; readonly not: boolean }
  | { readonly kind: 'protocol'; readonly protocols: readonly Protocol[]; readonly not: boolean }
  | { readonly kind: 'port'; readonly ranges: readonly PortRange[]; readonly not: boolean }
  | { readonly kind: 'state'; readonly any: readonly ConnectionState[]; readonly not: boolean }
  /** `mark & mask == value` */
  | {
      readonly kind: 'mark';
      readonly mask: number;
      readonly value: number;
      readonly not: boolean;
    }
  /** It holds in this share of all cases, 0..1. */
  | { readonly kind: 'share'; readonly share: number }
  /** Session affinity: the client is in the list of a backend. */
  | { readonly kind: 'remembered'; readonly list: string; readonly seconds: number }
  | {
      readonly kind: 'member';
      readonly key: readonly KeyPart[];
      readonly set: string;
      readonly not: boolean;
    }
  /** IPVS has translated the packet, which was for this virtual server. */
  | {
      readonly kind: 'virtual';
      readonly address: string;
      readonly protocol: Protocol;
      readonly port: number;
    }
  /** No test of these: the rule counts as one that does not match, and is reported. */
  | { readonly kind: 'unread'; readonly text: string };

export type Verdict =
  | { readonly kind: 'jump' | 'goto'; readonly chain: string }
  | { readonly kind: 'return' | 'accept' | 'drop' | 'reject' };

export interface Backend {
  readonly address: string;
  /** Host order; undefined: the port that the packet has. */
  readonly port: number | undefined;
}

export type Action =
  | Verdict
  /** One of these, each as likely as the others; one that is there twice is twice as likely. */
  | { readonly kind: 'dnat'; readonly to: readonly Backend[] }
  | { readonly kind: 'one-of'; readonly verdicts: readonly Verdict[] }
  | { readonly kind: 'look-up'; readonly key: readonly KeyPart[]; readonly map: string }
  | { readonly kind: 'masquerade' }
  /** `(mark & ~mask) ^ value` */
  | { readonly kind: 'mark'; readonly mask: number; readonly value: number }
  | { readonly kind: 'remember'; readonly list: string }
  | { readonly kind: 'unread'; readonly text: string };

export interface Rule {
  readonly tests: readonly Test[];
  /** In order; absent: the rule only counts. */
  readonly actions: readonly Action[];
  /** As its program prints it, with its chain. */
  readonly text: string;
  /** Of no proxy: it counts for packets that no proxy has translated. */
  readonly isForeign: boolean;
}

/** A set, or a map if its elements have verdicts. */
export interface Elements {
  /** By key, its parts separated by blanks: `10.96.0.10 TCP 80`. */
  readonly exact: ReadonlyMap<string, Verdict | undefined>;
  /** Prefixes and ranges of a key that is one address. */
  readonly ranges: readonly Range[];
  /** Of a key that ends with the source: networks of sources by the parts before it; `exact` has them as well, as text. */
  readonly nets?: ReadonlyMap<string, readonly Range[]>;
  /** Those that end by themselves, and ranges in a key of several parts: the former count, the latter match nothing. */
  readonly unread: readonly Pick<Rule, 'text' | 'isForeign'>[];
}

/** A chain that the kernel calls at a hook. */
export interface BaseChain {
  readonly priority: number;
  readonly isNat: boolean;
  readonly chain: string;
}

/** By name. */
export interface Chains {
  get(name: string): readonly Rule[] | undefined;
  values(): Iterable<readonly Rule[]>;
}

/** Of all rules of a program. */
export interface Survey {
  /** That rules and elements name as destinations. */
  readonly addresses: ReadonlySet<string>;
  readonly ranges: readonly Range[];
  /** Of every list of session affinity that a rule asks. */
  readonly seconds: ReadonlyMap<string, number>;
  /** Rules with a test or an action that is not known. */
  readonly unread: readonly Pick<Rule, 'text' | 'isForeign'>[];
}

export interface Program {
  readonly family: Family;
  /** In the order of their priorities. */
  readonly hooks: Readonly<Record<Hook, readonly BaseChain[]>>;
  readonly chains: Chains;
  readonly survey: Survey;
  readonly sets: ReadonlyMap<string, Elements>;
  /** Addresses of the node for the sake of Services alone: those of kube-ipvs0. */
  readonly virtualAddresses?: ReadonlySet<string>;
}
