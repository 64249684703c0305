// SPDX-License-Identifier: Apache-2.0
// The cache before fl_netns: an array of cookies (plain_netns of bpf/socket/maps.h) in memory that is shared with the programs.

/** PLAIN_NETNS_BITS; plain_index() of bpf/socket/scope/scope.h. */
const BITS = 12n;
const GOLDEN = 0x9e37_79b9_7f4a_7c15n;

export const plainIndex = (cookie: bigint): number =>
  Number(BigInt.asUintN(64, cookie * GOLDEN) >> (64n - BITS));

export interface PlainNamespaces {
  /** Its sockets are served; of two with one index the later one counts. */
  add(cookie: bigint): void;
  remove(cookie: bigint): void;
}

/** @param memory of the whole array: each store is seen as a whole */
export function plainNamespaces(memory: ArrayBuffer): PlainNamespaces {
  const cookies = new BigUint64Array(memory);
  return {
    add: (cookie) => {
      cookies[plainIndex(cookie)] = cookie;
    },
    remove: (cookie) => {
      const index = plainIndex(cookie);
      if (cookies[index] === cookie) cookies[index] = 0n;
    },
  };
}
