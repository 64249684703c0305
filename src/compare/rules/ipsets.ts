// SPDX-License-Identifier: Apache-2.0
// What `ipset save` prints -> sets to which rules of xt_set refer.
import { canonicalAddress } from '../../lib/ip.ts';
import { type Range, rangeOf } from './ranges.ts';
import type { Elements, KeyPart } from './types.ts';

/** A part of a set's type: an address, a network, or a port, in sets of several parts with its protocol. */
type SetPart = 'ip' | 'net' | 'port';

export interface IpSet {
  readonly parts: readonly SetPart[];
  readonly elements: Elements;
}

/** By name. */
export type IpSets = ReadonlyMap<string, IpSet>;

/** Types whose elements say nothing else. */
const TYPES: Readonly<Record<string, readonly SetPart[]>> = {
  'hash:ip': ['ip'],
  'bitmap:ip': ['ip'],
  'hash:net': ['net'],
  'bitmap:port': ['port'],
  'hash:ip,port': ['ip', 'port'],
  'hash:ip,port,ip': ['ip', 'port', 'ip'],
  'hash:ip,port,net': ['ip', 'port', 'net'],
};
const OF_A_PROXY = /^KUBE-/;

export const setName = (name: string): string => `ipset ${name}`;

export const elementsOf = (sets: IpSets): ReadonlyMap<string, Elements> =>
  new Map([...sets].map(([name, { elements }]) => [setName(name), elements]));

/** Sets of other types are left out: a rule that asks one cannot be read. */
export function readIpSets(saved: string): IpSets {
  const sets = new Map<string, Building>();
  for (const line of saved.split('\n')) {
    const [command, name = '', word = '', ...options] = line.split(' ');
    const parts = TYPES[word];
    if (command === 'create' && parts !== undefined && !options.includes('netmask'))
      sets.set(name, { parts, exact: new Map(), ranges: [], nets: new Map(), unread: [] });
    const set = command === 'add' ? sets.get(name) : undefined;
    if (set !== undefined) addEntry(set, name, word, options);
  }
  return new Map([...sets].map(([name, { parts, ...elements }]) => [name, { parts, elements }]));
}

interface Building {
  readonly parts: readonly SetPart[];
  readonly exact: Map<string, undefined>;
  readonly ranges: Range[];
  readonly nets: Map<string, Range[]>;
  readonly unread: Elements['unread'][number][];
}

function addEntry(set: Building, name: string, entry: string, options: readonly string[]): void {
  const { exact, ranges, nets, unread, parts } = set;
  const isUnread = options.includes('nomatch') || options.includes('timeout');
  if (isUnread) {
    const text = `ipset ${name}: ${[entry, ...options].join(' ')}`;
    unread.push({ text, isForeign: !OF_A_PROXY.test(name) });
  }
  if (options.includes('nomatch')) return;
  const words = entry.split(',').map((word) => textOf(word));
  exact.set(words.join(' '), undefined);
  if (parts.at(-1) !== 'net') return;
  const range = rangeOf(words.at(-1) ?? '');
  if (range === undefined) return;
  if (parts.length === 1) {
    ranges.push(range);
    return;
  }
  const key = words.slice(0, -1).join(' ');
  const list = nets.get(key);
  if (list === undefined) nets.set(key, [range]);
  else list.push(range);
}

/** `tcp:80` is two parts of a key. */
function textOf(word: string): string {
  const [, protocol = '', port = ''] = /^(tcp|udp|sctp):(\d+)$/.exec(word) ?? [];
  if (protocol !== '') return `${protocol.toUpperCase()} ${port}`;
  return canonicalAddress(word) ?? word;
}

/** @param flags `dst,dst,src`. undefined: a packet's source port is none of its classes */
export function keyOfSet({ parts }: IpSet, flags: string): readonly KeyPart[] | undefined {
  const sides = flags.split(',');
  if (sides.length < parts.length) return undefined;
  const key: KeyPart[] = [];
  for (const [index, part] of parts.entries()) {
    const isSource = sides[index] === 'src';
    if (part !== 'port') key.push(isSource ? 'source' : 'destination');
    else if (isSource) return undefined;
    else key.push(...(parts.length === 1 ? (['port'] as const) : (['protocol', 'port'] as const)));
  }
  return key;
}
