// SPDX-License-Identifier: Apache-2.0
// What is followed through rules: one destination, all clients at once. Clients that no rule tells apart are one class, and
// a set of classes is a number with one bit for each.
import type { Protocol } from '../../model/types.ts';
import type { AddressNumber, Range } from '../rules/ranges.ts';
import type { Rule } from '../rules/types.ts';

/** Clients that no rule and no Service tells apart. */
export interface ClientClass {
  readonly sources: Range;
  /** An address of these, canonical. */
  readonly source: string;
  readonly at: AddressNumber;
  /** The device by which the packet comes; undefined: a process of this node sends it. */
  readonly device: string | undefined;
  /** The address is one of this node's. */
  readonly isOwn: boolean;
}

export interface Destination {
  readonly address: string;
  readonly protocol: Protocol;
  /** Host order. */
  readonly port: number;
}

/** What rules ask the kernel for. */
export interface World {
  isLocal(address: string): boolean;
  /** The list of session affinity that has every client; undefined: none has. */
  readonly remembered?: string | undefined;
}

export interface Trail {
  readonly rule: Rule;
  readonly before: Trail | undefined;
}

export type End = 'accept' | 'drop' | 'reject';

/** One way of some clients through the rules. */
export interface Path {
  /** One bit for each class. */
  readonly clients: bigint;
  /** Of all ways of each of these clients, 0..1. */
  readonly share: number;
  readonly mark: number;
  /** Where the packet goes now. */
  readonly address: string;
  readonly at: AddressNumber;
  readonly port: number;
  readonly isTranslated: boolean;
  readonly isMasqueraded: boolean;
  /** The list of session affinity that has the client now. */
  readonly remembered: { readonly list: string } | undefined;
  readonly end: End;
  /** The rules that matched, the last one first. */
  readonly trail: Trail | undefined;
}

const BITS: bigint[] = [];

/** Of a class, in the numbers that are sets of them. */
export function bitOf(index: number): bigint {
  while (BITS.length <= index) BITS.push(1n << BigInt(BITS.length));
  return BITS[index] ?? 0n;
}
