// SPDX-License-Identifier: Apache-2.0
// A table of nftables as values: what is rendered from the plan, what is written, and what is read from `nft list table`.
// Types only. Rules and elements are texts, in the form in which nft prints them, so that both sides can be compared.
import type { Family } from '../../../model/types.ts';

/** The rules of a chain, one a line; '' for none. */
export type RulesText = string;

export interface Chain {
  /** `type nat hook output priority -100; policy accept;`; '' for a chain that others jump to. */
  readonly hook: string;
  readonly rules: RulesText;
}

/** A set or a map. */
export interface SetDeclaration {
  readonly kind: 'set' | 'map';
  /** Its lines but the elements: `type ipv4_addr`. */
  readonly lines: string;
  /** Packets add its elements: they are neither compared nor written. */
  readonly isDynamic: boolean;
}

/** Key -> what is printed behind it: ` : drop`, ` comment "default/web" : goto reject-chain`; '' in a set. */
export type Elements = ReadonlyMap<string, string>;

/** What the kernel has of the table of one family. */
export interface HeldTable {
  readonly chains: Map<string, Chain>;
  readonly sets: Map<string, SetDeclaration>;
  /** Of each set that is not dynamic. */
  readonly elements: Map<string, Map<string, string>>;
  /** Of other kinds, which only others write: `counter x`. */
  readonly foreign: Set<string>;
}

/** What is wanted of names that may have changed; undefined: it is to go. Names that are absent stay as they are. */
export interface Wanted {
  readonly chains: ReadonlyMap<string, Chain | undefined>;
  readonly sets: ReadonlyMap<string, SetDeclaration | undefined>;
  readonly elements: ReadonlyMap<string, ReadonlyMap<string, string | undefined>>;
}

/** What one Service has in the table of one family. */
export interface Fragment {
  readonly chains: readonly (readonly [name: string, rules: RulesText])[];
  readonly sets: readonly (readonly [name: string, declaration: SetDeclaration])[];
  readonly elements: readonly Element[];
  /** Maps of backends, which Services share. */
  readonly maps: readonly string[];
  /** Of hairpin-connections, where Services may share one. */
  readonly hairpins: readonly string[];
  /** ClusterIPs are masqueraded for these clients. */
  readonly masquerades: 'nobody' | 'others' | 'everyone';
}

export interface Element {
  readonly set: string;
  readonly key: string;
  readonly value: string;
}

export interface Ruleset {
  readonly family: Family;
  /** Of all Services together. */
  readonly chains: ReadonlyMap<string, Chain>;
  readonly sets: ReadonlyMap<string, SetDeclaration>;
  /** One for each Service, the identical one (===) if it did not change. */
  readonly fragments: ReadonlyMap<string, Fragment>;
  /** Those of all fragments, with how many name each. */
  readonly maps: ReadonlyMap<string, number>;
  /** As `maps`. Few: a node has a hundred pods or so. */
  readonly hairpins: ReadonlyMap<string, number>;
}
