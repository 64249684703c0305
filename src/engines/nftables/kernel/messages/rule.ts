// SPDX-License-Identifier: Apache-2.0
// A rule of a Service, as nft prints it -> its expressions. Rules of other shapes, such as those that all Services share, are
// left to nft.
import { addressBytes } from '../../../../lib/address-bytes.ts';
import type { Family } from '../../../../model/types.ts';
import * as kernel from '../../../../sys/netlink/nft/expressions.ts';
import { ADDRESS_FAMILY, commentData, PROTOCOLS, portBytes } from './values.ts';

export interface EncodedRule {
  readonly expressions: readonly Uint8Array[];
  /** undefined: it has no comment. */
  readonly userdata: Uint8Array | undefined;
  /** Maps that the rule has for itself, to be made before it. */
  readonly maps: readonly OwnMap[];
}

export interface OwnMap {
  /** Of a transaction, by which its rule names it. */
  readonly id: number;
  /** `0 : goto endpoint-x` */
  readonly elements: readonly (readonly [key: number, verdict: string, chain: string])[];
}

/** How nft asks for a name that no other map has. */
export const OWN_MAP = '__map%d';

interface Draft {
  readonly family: Family;
  readonly expressions: Uint8Array[];
  readonly maps: OwnMap[];
  readonly nextId: () => number;
  userdata: Uint8Array | undefined;
}

/** False: it cannot be encoded. */
type Encode = (draft: Draft, groups: readonly string[]) => boolean;

/** @returns undefined: nft has to write it */
export function encodeRule(
  text: string,
  family: Family,
  nextId: () => number,
): EncodedRule | undefined {
  const draft: Draft = { family, expressions: [], maps: [], nextId, userdata: undefined };
  let left = `${text} `;
  while (left !== '') {
    const rest = encodeNext(draft, left);
    if (rest === undefined) return undefined;
    left = rest;
  }
  return draft;
}

/** @returns what is left of the text */
function encodeNext(draft: Draft, text: string): string | undefined {
  for (const [pattern, encode] of STATEMENTS) {
    const match = pattern.exec(text);
    if (match === null) continue;
    const [whole, ...groups] = match;
    return encode(draft, groups) ? text.slice(whole.length) : undefined;
  }
  return undefined;
}

const STATEMENTS: readonly (readonly [RegExp, Encode])[] = [
  [/^meta l4proto (tcp|udp|sctp) /, matchProtocol],
  [/^ip6? saddr @(\S+) /, matchSet],
  [/^ip6? saddr (!= )?([0-9a-f.:]+)(?:\/(\d+))? /, matchSource],
  [/^iifname (!= )?"([^"*\\]{1,15})(\*?)" /, matchDevice],
  [/^fib saddr type local /, matchLocal],
  [/^meta mark set meta mark \| 0x([0-9a-f]{8}) /, addMark],
  [/^dnat to \[?([0-9a-f.:]+?)\]?:(\d+) /, translate],
  [/^dnat ip6? to numgen random mod (\d+)(?: offset (\d+))? map @(\S+) /, translateByMap],
  [/^numgen random mod (\d+) vmap \{ (.*?) \} /, chooseChain],
  [/^update @(\S+) \{ ip6? saddr \} /, remember],
  [/^(goto|jump) (\S+) /, endWith],
  [/^(drop|return|accept) /, endWith],
  [/^comment "([^"\\]*)" $/, comment],
];

function matchProtocol({ expressions }: Draft, [name = '']: readonly string[]): boolean {
  const number = PROTOCOLS[name] ?? 0;
  expressions.push(
    kernel.loadMeta(kernel.META_KEY.l4proto),
    kernel.compare(true, Uint8Array.of(number)),
  );
  return true;
}

const SOURCE = { IPv4: { offset: 12, length: 4 }, IPv6: { offset: 8, length: 16 } } as const;

const loadSource = (family: Family, length: number = SOURCE[family].length): Uint8Array =>
  kernel.loadHeader(SOURCE[family].offset, length);

function matchSet({ expressions, family }: Draft, [set = '']: readonly string[]): boolean {
  expressions.push(loadSource(family), kernel.lookUp(set));
  return true;
}

/** Whole bytes of a prefix are compared as such, others with a mask. */
function matchSource({ expressions, family }: Draft, groups: readonly string[]): boolean {
  const [not, address = '', size] = groups;
  const bytes = addressBytes(address, family);
  const bits = size === undefined ? bytes.length * 8 : Number(size);
  const isEqual = not === undefined;
  if (bits > 0 && bits % 8 === 0) {
    const compared = bytes.subarray(0, bits / 8);
    expressions.push(loadSource(family, compared.length), kernel.compare(isEqual, compared));
    return true;
  }
  const mask = bytes.map((_, at) => (0xff00 >> Math.min(8, Math.max(0, bits - 8 * at))) & 0xff);
  expressions.push(
    loadSource(family),
    kernel.maskAndXor(mask, new Uint8Array(bytes.length)),
    kernel.compare(isEqual, bytes),
  );
  return true;
}

/** A whole name is compared with the zeros after it, a prefix without. */
const NAME_SIZE = 16;

function matchDevice({ expressions }: Draft, [not, name = '', any]: readonly string[]): boolean {
  const bytes = new TextEncoder().encode(name);
  const whole = new Uint8Array(NAME_SIZE);
  whole.set(bytes);
  expressions.push(
    kernel.loadMeta(kernel.META_KEY.iifname),
    kernel.compare(not === undefined, any === '*' ? bytes : whole),
  );
  return true;
}

const RTN_LOCAL = 2;

function matchLocal({ expressions }: Draft): boolean {
  expressions.push(kernel.loadSourceType(), kernel.compare(true, kernel.hostNumber(RTN_LOCAL)));
  return true;
}

function addMark({ expressions }: Draft, [hex = '']: readonly string[]): boolean {
  const mark = Number.parseInt(hex, 16);
  expressions.push(
    kernel.loadMeta(kernel.META_KEY.mark),
    kernel.maskAndXor(kernel.hostNumber(~mark), kernel.hostNumber(mark)),
    kernel.setMeta(kernel.META_KEY.mark),
  );
  return true;
}

function translate({ expressions, family }: Draft, groups: readonly string[]): boolean {
  const [address = '', port] = groups;
  const bytes = addressBytes(address, family);
  expressions.push(
    ...kernel.translateTo(ADDRESS_FAMILY[family], bytes, portBytes(Number(port), 2)),
  );
  return true;
}

function translateByMap({ expressions, family }: Draft, groups: readonly string[]): boolean {
  const [modulus, offset = '0', map = ''] = groups;
  expressions.push(
    kernel.randomNumber(Number(modulus), Number(offset)),
    kernel.lookUp(map, 'value'),
    kernel.translateToFound(ADDRESS_FAMILY[family], family === 'IPv6'),
  );
  return true;
}

/** Where weights differ there are ranges of numbers, which only nft writes. */
function chooseChain(draft: Draft, [modulus, list = '']: readonly string[]): boolean {
  const elements = list.split(', ').map((one) => /^(\d+) : (goto) (\S+)$/.exec(one));
  if (!elements.every((one) => one !== null)) return false;
  const id = draft.nextId();
  draft.maps.push({
    id,
    elements: elements.map(([, key = '', verdict = '', chain = '']) => [
      ...([Number(key), verdict, chain] as const),
    ]),
  });
  draft.expressions.push(
    kernel.randomNumber(Number(modulus), 0),
    kernel.lookUp(OWN_MAP, 'verdict', id),
  );
  return true;
}

function remember({ expressions, family }: Draft, [set = '']: readonly string[]): boolean {
  expressions.push(loadSource(family), kernel.updateSet(set));
  return true;
}

function endWith({ expressions }: Draft, [name = '', chain = '']: readonly string[]): boolean {
  expressions.push(kernel.verdict(name, chain));
  return true;
}

function comment(draft: Draft, [text = '']: readonly string[]): boolean {
  draft.userdata = commentData(text);
  return true;
}
