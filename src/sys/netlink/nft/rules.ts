// SPDX-License-Identifier: Apache-2.0
// Where the rules of a table of nf_tables lead: the maps that they ask, and the one destination that a rule has without a map.

import { attributeIn, joined, type Span, viewOf } from '../wire.ts';
import {
  bytesOf,
  dumped,
  NFTA_DATA,
  type NftFamily,
  named,
  nested,
  textAt,
  textOf,
  whole,
  within,
} from './map-elements.ts';

export const NFT_MSG_GETRULE = 7;
export const NFTA_RULE = { TABLE: 1, CHAIN: 2, EXPRESSIONS: 4 } as const;
const NFTA_EXPR = { NAME: 1, DATA: 2 } as const;
const NFTA_LOOKUP_SET = 1;
export const NFTA_TARGET = { NAME: 1, REVISION: 2, INFO: 3 } as const;
export const NFTA_IMMEDIATE = { DREG: 1, DATA: 2 } as const;
export const NFTA_NAT = { TYPE: 1, REG_ADDR_MIN: 3, REG_PROTO_MIN: 5 } as const;
export const NFT_NAT_DNAT = 1;
/** A register's size: parts of a value are padded to it. */
const PART = 4;

export interface ChainRules {
  /** The sets and maps that the rules ask. */
  readonly lookups: readonly string[];
  /** Address and port of each `dnat to` with a constant, both in network byte order, each padded to four bytes. */
  readonly destinations: readonly Uint8Array[];
}

/** For each chain that has rules. Empty if there is no such table. */
export function nftRules(family: NftFamily, table: string): ReadonlyMap<string, ChainRules> {
  const found = new Map<string, ChainRules>();
  for (const body of dumped(family, NFT_MSG_GETRULE, [named(NFTA_RULE.TABLE, table)])) {
    // Before Linux 4.18 those of all tables are listed.
    if (textAt(body, NFTA_RULE.TABLE) !== table) continue;
    const chain = textAt(body, NFTA_RULE.CHAIN) ?? '';
    const before = found.get(chain);
    const rule = ruleIn(body);
    found.set(chain, {
      lookups: [...(before?.lookups ?? []), ...rule.lookups],
      destinations: [...(before?.destinations ?? []), ...rule.destinations],
    });
  }
  return found;
}

export interface Expression {
  readonly name: string | undefined;
  /** Its own attributes. */
  readonly data: Span | undefined;
}

/** @param body of a rule */
export function* expressionsIn(body: Uint8Array): Generator<Expression> {
  const view = viewOf(body);
  for (const one of nested(view, attributeIn(view, whole(body), NFTA_RULE.EXPRESSIONS))) {
    const name = textOf(body, attributeIn(view, one, NFTA_EXPR.NAME));
    yield { name, data: attributeIn(view, one, NFTA_EXPR.DATA) };
  }
}

function ruleIn(body: Uint8Array): ChainRules {
  const view = viewOf(body);
  const lookups: string[] = [];
  const destinations: Uint8Array[] = [];
  const registers = new Map<number, Uint8Array>();
  const number = (span: Span | undefined): number => (span ? view.getUint32(span.from) : 0);
  for (const { name, data } of expressionsIn(body)) {
    const of = (...types: readonly number[]) => within(view, data, ...types);
    if (name === 'lookup') lookups.push(textOf(body, of(NFTA_LOOKUP_SET)) ?? '');
    if (name === 'immediate') {
      const value = of(NFTA_IMMEDIATE.DATA, NFTA_DATA.VALUE);
      if (value) registers.set(number(of(NFTA_IMMEDIATE.DREG)), bytesOf(body, value));
    }
    if (name !== 'nat' || number(of(NFTA_NAT.TYPE)) !== NFT_NAT_DNAT) continue;
    const address = registers.get(number(of(NFTA_NAT.REG_ADDR_MIN)));
    const port = registers.get(number(of(NFTA_NAT.REG_PROTO_MIN)));
    if (address && port) destinations.push(joined([padded(address), padded(port)]));
  }
  return { lookups, destinations };
}

function padded(value: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(Math.ceil(value.length / PART) * PART);
  bytes.set(value);
  return bytes;
}
