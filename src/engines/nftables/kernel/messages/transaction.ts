// SPDX-License-Identifier: Apache-2.0
// A difference of Services as messages for the kernel, in the order of state/script.ts. nft lists all chains of the table
// before each transaction, which takes several times as long as a transaction of these.
import type { Family } from '../../../../model/types.ts';
import type { NftMessage } from '../../../../sys/netlink/nft/batch.ts';
import {
  hostNumber,
  number,
  value,
  verdictValue,
} from '../../../../sys/netlink/nft/expressions.ts';
import { named } from '../../../../sys/netlink/nft/map-elements.ts';
import { NFTA_RULE } from '../../../../sys/netlink/nft/rules.ts';
import { attribute, joined } from '../../../../sys/netlink/wire.ts';
import { TABLE } from '../../rules/names.ts';
import type { HeldTable } from '../../rules/types.ts';
import type { SetElements, TableDiff } from '../../state/diff.ts';
import { elementAttribute, NFTA_SET_ELEM } from './element.ts';
import { encodeRule, OWN_MAP, type OwnMap } from './rule.ts';
import { newSet, newVerdictMap } from './set.ts';
import { ADDRESS_FAMILY } from './values.ts';

const NFT_MSG = {
  ...{ NEWCHAIN: 3, DELCHAIN: 5, NEWRULE: 6, DELRULE: 8 },
  ...{ NEWSET: 9, DELSET: 11, NEWSETELEM: 12, DELSETELEM: 14 },
} as const;
const CREATE = 0x400;
const APPEND = 0x800;
const TABLE_NAME = 1;
const CHAIN_NAME = 3;
const SET_NAME = 2;
const NFTA_SET_ELEM_LIST = { SET: 2, ELEMENTS: 3, SET_ID: 4 } as const;
const NFTA_RULE_USERDATA = 7;
const LIST_ELEM = 1;

/** The size of a list in a message has 16 bits. */
const ELEMENTS_AT_ONCE = 256;
/** A batch has to fit into the socket's buffer, 208 KiB on most systems. nft is not much slower with more. */
const MOST_MESSAGES = 500;
const MOST_BYTES = 96 * 1024;

type Draft = NftMessage[];

/** @returns undefined: nft has to write it */
export function messagesOf(
  diff: TableDiff,
  family: Family,
  held: HeldTable,
): readonly NftMessage[] | undefined {
  if (diff.removedForeign.length > 0 || held.sets.size === 0) return undefined;
  const messages: Draft = [];
  const add = (type: number, flags: number, ...attributes: readonly Uint8Array[]): void => {
    const header = Uint8Array.of(ADDRESS_FAMILY[family], 0, 0, 0);
    const body = joined([header, named(TABLE_NAME, TABLE), ...attributes]);
    messages.push({ type, flags, body });
  };
  const isWhole = new Encoder(diff, family, held, add).run();
  const size = messages.reduce((sum, { body }) => sum + body.length, 0);
  const isSmall = messages.length <= MOST_MESSAGES && size <= MOST_BYTES;
  return isWhole && isSmall ? messages : undefined;
}

type Add = (type: number, flags: number, ...attributes: readonly Uint8Array[]) => void;

class Encoder {
  readonly #diff: TableDiff;
  readonly #family: Family;
  readonly #held: HeldTable;
  readonly #add: Add;
  #lastId = 0;

  constructor(diff: TableDiff, family: Family, held: HeldTable, add: Add) {
    this.#diff = diff;
    this.#family = family;
    this.#held = held;
    this.#add = add;
  }

  /** False: something cannot be encoded. */
  run(): boolean {
    const { emptied, removedChains, removedSets, removedElements } = this.#diff;
    for (const chain of emptied) this.#add(NFT_MSG.DELRULE, 0, named(NFTA_RULE.CHAIN, chain));
    if (!removedElements.every((one) => this.#elements(NFT_MSG.DELSETELEM, one))) return false;
    for (const chain of removedChains) this.#add(NFT_MSG.DELCHAIN, 0, named(CHAIN_NAME, chain));
    for (const [set] of removedSets) this.#add(NFT_MSG.DELSET, 0, named(SET_NAME, set));
    return (
      this.#newChains() &&
      this.#newSets() &&
      this.#diff.addedElements.every((one) => this.#elements(NFT_MSG.NEWSETELEM, one)) &&
      this.#diff.filled.every(([chain, rules]) =>
        rules.split('\n').every((rule) => this.#rule(chain, rule)),
      )
    );
  }

  readonly #nextId = (): number => {
    this.#lastId += 1;
    return this.#lastId;
  };

  #newChains(): boolean {
    for (const [chain, hook] of this.#diff.addedChains) {
      if (hook !== '') return false;
      this.#add(NFT_MSG.NEWCHAIN, CREATE, named(CHAIN_NAME, chain));
    }
    return true;
  }

  #newSets(): boolean {
    for (const [set, declaration] of this.#diff.addedSets) {
      const attributes = newSet(declaration, this.#family, this.#nextId());
      if (attributes === undefined) return false;
      this.#add(NFT_MSG.NEWSET, CREATE, named(SET_NAME, set), ...attributes);
    }
    return true;
  }

  #elements(type: number, { set, elements }: SetElements): boolean {
    const declared = this.#held.sets.get(set)?.lines;
    if (declared === undefined) return false;
    const isNew = type === NFT_MSG.NEWSETELEM;
    for (let from = 0; from < elements.length; from += ELEMENTS_AT_ONCE) {
      const some = elements
        .slice(from, from + ELEMENTS_AT_ONCE)
        .map(([key, text]) => elementAttribute(declared, key, isNew ? text : '', this.#family));
      if (!some.every((one) => one !== undefined)) return false;
      this.#list(type, set, some);
    }
    return true;
  }

  #list(
    type: number,
    set: string,
    elements: readonly Uint8Array[],
    ...more: readonly Uint8Array[]
  ): void {
    const flags = type === NFT_MSG.NEWSETELEM ? CREATE : 0;
    const list = attribute(NFTA_SET_ELEM_LIST.ELEMENTS, ...elements);
    this.#add(type, flags, named(NFTA_SET_ELEM_LIST.SET, set), ...more, list);
  }

  #rule(chain: string, text: string): boolean {
    const rule = encodeRule(text, this.#family, this.#nextId);
    if (rule === undefined) return false;
    for (const map of rule.maps) this.#ownMap(map);
    const { expressions, userdata } = rule;
    this.#add(
      NFT_MSG.NEWRULE,
      CREATE | APPEND,
      named(NFTA_RULE.CHAIN, chain),
      attribute(NFTA_RULE.EXPRESSIONS, ...expressions),
      ...(userdata === undefined ? [] : [attribute(NFTA_RULE_USERDATA, userdata)]),
    );
    return true;
  }

  #ownMap({ id, elements }: OwnMap): void {
    const attributes = newVerdictMap(elements.length, id);
    this.#add(NFT_MSG.NEWSET, CREATE, named(SET_NAME, OWN_MAP), ...attributes);
    const encoded = elements.map(([key, name, chain]) =>
      attribute(
        LIST_ELEM,
        value(NFTA_SET_ELEM.KEY, hostNumber(key)),
        verdictValue(NFTA_SET_ELEM.DATA, name, chain),
      ),
    );
    this.#list(NFT_MSG.NEWSETELEM, OWN_MAP, encoded, number(NFTA_SET_ELEM_LIST.SET_ID, id));
  }
}
