// SPDX-License-Identifier: Apache-2.0
// Addresses and ports of connections. They stay bytes in network order, because a million are read at a time; they become
// text only for people.
import { addressText, hostPort } from '../../../lib/address-bytes.ts';

export interface Side {
  readonly address: Uint8Array;
  readonly port: number;
}

/** A text that orders sides of one family by address, then by port. */
export function orderOf({ address, port }: Side): string {
  let text = '';
  for (let at = 0; at < address.length; at += 1) text += String.fromCharCode(address[at] ?? 0);
  return text + String.fromCharCode(port);
}

/** `10.0.0.1:80`, `[fd00::1]:80`. */
export const sideText = ({ address, port }: Side): string => hostPort(addressText(address), port);
