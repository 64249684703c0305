// SPDX-License-Identifier: Apache-2.0
// How large the maps of bpf/packet/conn/maps.h are: all follow from the number of buckets of the clients' index.

import { CONN_SLOTS } from '../layout/conn-layout.ts';
import { encodeU32 } from '../layout/layout.ts';

/** So full the table may be: while it fills, three of 10,000 connections find no slot, see ADR 45. */
const LOAD = 0.85;

/** A key's buckets are pairs: bucket_of() in bpf/packet/conn/hash.h needs two. */
const LEAST_BUCKETS = 2;

export const bucketsFor = (connections: number): number =>
  Math.max(LEAST_BUCKETS, Math.ceil(connections / LOAD / CONN_SLOTS));

export const capacityOf = (buckets: number): number => Math.floor(buckets * CONN_SLOTS * LOAD);

/** For two words of each masqueraded connection, as reply_buckets() in bpf/packet/conn/maps.h has it. */
export const replyBuckets = (buckets: number): number =>
  2 * buckets + Math.floor((3 * buckets) / 8);

/** Of one family, by the names of the maps. */
export function sizesOf(digit: 4 | 6, buckets: number): Readonly<Record<string, number>> {
  const records = buckets * CONN_SLOTS;
  return {
    [`fl_client${digit}`]: buckets,
    [`fl_conn${digit}`]: records,
    [`fl_conn_traf${digit}`]: records,
    [`fl_reply${digit}`]: replyBuckets(buckets),
  };
}

export const connSizes = (buckets: number): Readonly<Record<string, number>> => ({
  ...sizesOf(4, buckets),
  ...sizesOf(6, buckets),
});

/** The bits that the number of a record may have: a word of the replies' index has its tag above them. */
export const indexMaskOf = (buckets: number): number =>
  2 ** (32 - Math.clz32(buckets * CONN_SLOTS - 1)) - 1;

/** What programs over these maps are told before they are loaded. */
export function connRodata(sizes: Readonly<Record<string, number>>) {
  const [four, six] = [sizes['fl_client4'] ?? LEAST_BUCKETS, sizes['fl_client6'] ?? LEAST_BUCKETS];
  return {
    conn_buckets4: encodeU32(four),
    conn_buckets6: encodeU32(six),
    conn_index_mask4: encodeU32(indexMaskOf(four)),
    conn_index_mask6: encodeU32(indexMaskOf(six)),
  };
}
