// SPDX-License-Identifier: Apache-2.0
// The hash of a flow, which gives the entry of the table. It has no secret: every node must find the same.
import { addressBytes } from '../../lib/address-bytes.ts';
import { familyOf } from '../../lib/ip.ts';
import type { Protocol } from '../../model/types.ts';
import type { FlowId } from '../lookup-table.ts';

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
