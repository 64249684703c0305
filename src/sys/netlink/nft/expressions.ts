// SPDX-License-Identifier: Apache-2.0
// Expressions of rules of nf_tables as the kernel takes them (linux/netfilter/nf_tables.h), each as nft 1.0.6 sends it. Pure.
//   meta l4proto tcp    [ meta load l4proto => reg 1 ] [ cmp eq reg 1 0x06 ]
import { attribute, viewOf } from '../wire.ts';
import { NFTA_DATA, named } from './map-elements.ts';
import { NFTA_IMMEDIATE, NFTA_NAT } from './rules.ts';

const NFTA_LIST_ELEM = 1;
const NFTA_EXPR = { NAME: 1, DATA: 2 } as const;
const NFTA_VERDICT = { CODE: 1, CHAIN: 2 } as const;

/** A register of 16 bytes; the first of its four parts is REGISTER too, the second is SECOND_PART. */
const REGISTER = 1;
const NEXT_REGISTER = 2;
const SECOND_PART = 9;
const VERDICT_REGISTER = 0;

export const META_KEY = { mark: 3, iifname: 6, l4proto: 16 } as const;
export const VERDICTS: Readonly<Record<string, number>> = {
  ...{ drop: 0, accept: 1, jump: -3, goto: -4, return: -5 },
};

/** Numbers are in network order. */
export function number(type: number, value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  viewOf(bytes).setUint32(0, value >>> 0);
  return attribute(type, bytes);
}

/** What packets have in host order is little-endian on every architecture that fairlead is built for. */
export function hostNumber(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  viewOf(bytes).setUint32(0, value >>> 0, true);
  return bytes;
}

const expression = (name: string, ...attributes: readonly Uint8Array[]): Uint8Array =>
  attribute(NFTA_LIST_ELEM, named(NFTA_EXPR.NAME, name), attribute(NFTA_EXPR.DATA, ...attributes));

export const value = (type: number, bytes: Uint8Array): Uint8Array =>
  attribute(type, attribute(NFTA_DATA.VALUE, bytes));

/** @param chain that is jumped to */
export const verdictValue = (type: number, verdict: string, chain: string): Uint8Array =>
  attribute(
    type,
    attribute(
      NFTA_DATA.VERDICT,
      number(NFTA_VERDICT.CODE, VERDICTS[verdict] ?? 0),
      ...(chain === '' ? [] : [named(NFTA_VERDICT.CHAIN, chain)]),
    ),
  );

export const loadMeta = (key: number): Uint8Array =>
  expression('meta', number(2, key), number(1, REGISTER));

export const setMeta = (key: number): Uint8Array =>
  expression('meta', number(2, key), number(3, REGISTER));

/** Of the network header. */
export const loadHeader = (offset: number, length: number): Uint8Array =>
  expression('payload', number(1, REGISTER), number(2, 1), number(3, offset), number(4, length));

export const compare = (isEqual: boolean, bytes: Uint8Array): Uint8Array =>
  expression('cmp', number(1, REGISTER), number(2, isEqual ? 0 : 1), value(3, bytes));

export const maskAndXor = (mask: Uint8Array, xor: Uint8Array): Uint8Array =>
  expression(
    'bitwise',
    ...[number(1, REGISTER), number(2, REGISTER), number(3, mask.length)],
    ...[value(4, mask), value(5, xor)],
  );

/** The kind of address that the packet's source is: RTN_LOCAL for the node's own. */
export const loadSourceType = (): Uint8Array =>
  expression('fib', number(1, REGISTER), number(2, 3), number(3, 1));

export const randomNumber = (modulus: number, offset: number): Uint8Array =>
  expression('numgen', number(1, REGISTER), number(2, modulus), number(3, 1), number(4, offset));

/** @param to what is found; undefined: that it is there is enough. @param id of a set that the same batch makes */
export const lookUp = (set: string, to?: 'value' | 'verdict', id?: number): Uint8Array =>
  expression(
    'lookup',
    number(2, REGISTER),
    ...(to === undefined ? [] : [number(3, to === 'value' ? REGISTER : VERDICT_REGISTER)]),
    named(1, set),
    ...(id === undefined ? [] : [number(4, id)]),
  );

export const updateSet = (set: string): Uint8Array =>
  expression('dynset', named(1, set), number(3, 1), number(4, REGISTER));

export const verdict = (name: string, chain: string): Uint8Array =>
  expression(
    'immediate',
    number(NFTA_IMMEDIATE.DREG, VERDICT_REGISTER),
    verdictValue(NFTA_IMMEDIATE.DATA, name, chain),
  );

/** Destination address and port, both found by a lookup. */
export const translateToFound = (protocolFamily: number, isIpv6: boolean): Uint8Array =>
  translate(protocolFamily, isIpv6 ? NEXT_REGISTER : SECOND_PART);

export const translateTo = (
  protocolFamily: number,
  address: Uint8Array,
  port: Uint8Array,
): readonly Uint8Array[] => [
  immediate(REGISTER, address),
  immediate(NEXT_REGISTER, port),
  translate(protocolFamily, NEXT_REGISTER),
];

const immediate = (register: number, bytes: Uint8Array): Uint8Array =>
  expression('immediate', number(NFTA_IMMEDIATE.DREG, register), value(NFTA_IMMEDIATE.DATA, bytes));

const translate = (protocolFamily: number, portRegister: number): Uint8Array =>
  expression(
    'nat',
    ...[number(NFTA_NAT.TYPE, 1), number(2, protocolFamily)],
    ...[number(NFTA_NAT.REG_ADDR_MIN, REGISTER), number(NFTA_NAT.REG_PROTO_MIN, portRegister)],
  );
