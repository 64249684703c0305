// SPDX-License-Identifier: Apache-2.0
// The hashes of Maglev: of a backend's name, which gives its preferences, and of a flow, which gives the entry. Neither
// has a secret: every node must find the same.
import { addressBytes } from '../../lib/address-bytes.ts';
import { familyOf } from '../../lib/ip.ts';
import type { Protocol } from '../../model/types.ts';

/** murmur3 (x86, 32 bits) of ASCII text. */
export function murmur3(text: string, seed: number): number {
  let hash = seed;
  const whole = text.length & ~3;
  for (let at = 0; at < whole; at += 4) {
    hash ^= scrambled(wordAt(text, at, 4));
    hash = Math.imul((hash << 13) | (hash >>> 19), 5) + 0xe6546b64;
  }
  if (whole < text.length) hash ^= scrambled(wordAt(text, whole, text.length - whole));
  hash ^= text.length;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

function wordAt(text: string, at: number, bytes: number): number {
  let word = 0;
  for (let byte = 0; byte < bytes; byte += 1) word |= text.charCodeAt(at + byte) << (8 * byte);
  return word;
}

function scrambled(word: number): number {
  const mixed = Math.imul(word, 0xcc9e2d51);
  return Math.imul((mixed << 15) | (mixed >>> 17), 0x1b873593);
}

/** What a client's packets have in common. */
export interface FlowId {
  readonly source: string;
  /** 0: connections of one client are one. */
  readonly sourcePort: number;
  /** Of the frontend, as the client knows it. */
  readonly destination: string;
  readonly destinationPort: number;
  readonly protocol: Protocol;
}

const PROTOCOL_NUMBER: Readonly<Record<Protocol, bigint>> = { TCP: 6n, UDP: 17n, SCTP: 132n };
const WORD = 2n ** 64n - 1n;

/** As fl_hash() in bpf/common/algorithm.h: 32 bits. */
export function flowHash(flow: FlowId): number {
  const ports = (BigInt(flow.sourcePort) << 16n) | BigInt(flow.destinationPort);
  const rest = (PROTOCOL_NUMBER[flow.protocol] << 32n) | ports;
  const hash = mixed(mixed(rest, ...halvesOf(flow.source)), ...halvesOf(flow.destination));
  return Number(hash >> 32n);
}

function mixed(seed: bigint, high: bigint, low: bigint): bigint {
  let hash = (seed + high) & WORD;
  hash = ((hash ^ (hash >> 32n)) * 0x9e3779b97f4a7c15n + low) & WORD;
  hash = ((hash ^ (hash >> 33n)) * 0xff51afd7ed558ccdn) & WORD;
  hash = ((hash ^ (hash >> 33n)) * 0xc4ceb9fe1a85ec53n) & WORD;
  return hash ^ (hash >> 33n);
}

/** The two words that a program of a little-endian machine reads; IPv4 is v4-mapped. */
function halvesOf(address: string): readonly [bigint, bigint] {
  const family = familyOf(address);
  const bytes = new Uint8Array(16);
  if (family === 'IPv4') bytes.fill(0xff, 10, 12);
  bytes.set(addressBytes(address, family), family === 'IPv4' ? 12 : 0);
  const view = new DataView(bytes.buffer);
  return [view.getBigUint64(0, true), view.getBigUint64(8, true)];
}

/** The entry of a flow, from 0. */
export const entryOf = (hash: number, entries: number): number =>
  Number((BigInt(hash) * BigInt(entries)) >> 32n);
