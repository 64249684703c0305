// SPDX-License-Identifier: Apache-2.0
// fl_node: the address of this node, of each family.
import { addressBytes } from '../../lib/address-bytes.ts';
import { FAMILIES } from '../../model/types.ts';
import type { Plan } from '../../plan/types.ts';
import { encodeU32 } from './layout/layout.ts';

const SIZE = 20;
const AT = { IPv4: 0, IPv6: 4 } as const;

interface NodeMap {
  put(key: Uint8Array, value: Uint8Array): void;
}

/** Returns a function that writes the addresses when they change. */
export function followNode(map: NodeMap): (node: Plan['node']) => void {
  let last: string | undefined;
  return ({ addresses }) => {
    const text = JSON.stringify(addresses);
    if (text === last) return;
    const bytes = new Uint8Array(SIZE);
    for (const family of FAMILIES) {
      const address = addresses[family];
      if (address !== undefined) bytes.set(addressBytes(address, family), AT[family]);
    }
    map.put(encodeU32(0), bytes);
    last = text;
  };
}
