// SPDX-License-Identifier: Apache-2.0
// What the maps of a table of nf_tables hold, in this process's network namespace, without the program nft, which a node may lack.
import { attribute, attributeIn, type Span, text, viewOf } from '../wire.ts';
import { dumpOrNone } from './dump.ts';

const NFT_MSG_GETSETELEM = 13;
const NFTA_SET_ELEM_LIST = { TABLE: 1, SET: 2, ELEMENTS: 3 } as const;
const NFTA_SET_ELEM = { KEY: 1, DATA: 2 } as const;
export const NFTA_DATA = { VALUE: 1, VERDICT: 2 } as const;
const NFTA_VERDICT_CHAIN = 2;
const ATTRIBUTE_HEADER = 4;
/** `struct nfgenmsg`. */
const HEADER_SIZE = 4;
const ADDRESS_FAMILY = { IPv4: 2, IPv6: 10 } as const;

export type NftFamily = keyof typeof ADDRESS_FAMILY;

export interface MapElement {
  /** The parts of a concatenation, each padded to four bytes. */
  readonly key: Uint8Array;
  /** The chain of a verdict, or a value, whose parts are padded, too. */
  readonly chain: string | undefined;
  readonly value: Uint8Array | undefined;
}

/** Empty if there is no such map. */
export function nftMap(family: NftFamily, table: string, map: string): readonly MapElement[] {
  const names = [named(NFTA_SET_ELEM_LIST.TABLE, table), named(NFTA_SET_ELEM_LIST.SET, map)];
  return dumped(family, NFT_MSG_GETSETELEM, names).flatMap(elementsIn);
}

function elementsIn(body: Uint8Array): readonly MapElement[] {
  const view = viewOf(body);
  const elements: MapElement[] = [];
  for (const one of nested(view, attributeIn(view, whole(body), NFTA_SET_ELEM_LIST.ELEMENTS))) {
    const key = within(view, one, NFTA_SET_ELEM.KEY, NFTA_DATA.VALUE);
    if (key === undefined) continue;
    const data = attributeIn(view, one, NFTA_SET_ELEM.DATA);
    const value = attributeIn(view, data, NFTA_DATA.VALUE);
    elements.push({
      key: bytesOf(body, key),
      chain: textOf(body, within(view, data, NFTA_DATA.VERDICT, NFTA_VERDICT_CHAIN)),
      value: value && bytesOf(body, value),
    });
  }
  return elements;
}

export const within = (
  view: DataView,
  from: Span | undefined,
  ...types: readonly number[]
): Span | undefined =>
  types.reduce<Span | undefined>((span, type) => attributeIn(view, span, type), from);

/** Every attribute, whatever its type: a list has them all of one. */
export function* nested(view: DataView, list: Span | undefined): Generator<Span> {
  let at = list?.from ?? 0;
  while (list !== undefined && at + ATTRIBUTE_HEADER <= list.to) {
    const length = view.getUint16(at, true);
    if (length < ATTRIBUTE_HEADER) return;
    yield { from: at + ATTRIBUTE_HEADER, to: at + length };
    at += (length + 3) & ~3;
  }
}

/** Empty for what is not there. Throws the kernel's errno. */
export const dumped = (
  family: NftFamily,
  message: number,
  attributes: readonly Uint8Array[],
): readonly Uint8Array[] => dumpOrNone({ message, family: ADDRESS_FAMILY[family], attributes });

export const named = (type: number, name: string): Uint8Array =>
  attribute(type, new TextEncoder().encode(`${name}\0`));

export const whole = (body: Uint8Array): Span => ({ from: HEADER_SIZE, to: body.length });
export const bytesOf = (body: Uint8Array, { from, to }: Span): Uint8Array =>
  body.subarray(from, to);
export const textOf = (body: Uint8Array, span: Span | undefined): string | undefined =>
  span && text(bytesOf(body, span));
export const textAt = (body: Uint8Array, type: number): string | undefined =>
  textOf(body, attributeIn(viewOf(body), whole(body), type));
