// SPDX-License-Identifier: Apache-2.0
// Addresses of the loopback device: added and removed one by one, each with the longest prefix.
import { addressBytes } from '../../lib/address-bytes.ts';
import { familyOf } from '../../lib/ip.ts';
import { LOOPBACK_IFINDEX } from '../loopback.ts';
import { RTM } from './records.ts';
import { NLM_F, netlinkRequest } from './request.ts';
import { attribute } from './wire.ts';

const NETLINK_ROUTE = 0;
const AF = { IPv4: 2, IPv6: 10 } as const;
const IFA = { ADDRESS: 1, LOCAL: 2 };
/** Of IPv6: nobody else is asked whether he has it. */
const IFA_F_NODAD = 2;

function bodyOf(address: string): Uint8Array {
  const family = familyOf(address);
  const bytes = addressBytes(address, family);
  const header = new Uint8Array(8);
  header.set([AF[family], bytes.length * 8, family === 'IPv6' ? IFA_F_NODAD : 0, 0]);
  new DataView(header.buffer).setUint32(4, LOOPBACK_IFINDEX, true);
  const parts = [header, attribute(IFA.LOCAL, bytes), attribute(IFA.ADDRESS, bytes)];
  return Buffer.concat(parts);
}

/** False: the device has it already. Throws an Error whose message is the errno's name. */
export function addLoopbackAddress(address: string): boolean {
  const flags = NLM_F.ACK | NLM_F.CREATE | NLM_F.EXCL;
  return !isAnswered('EEXIST', { type: RTM.NEWADDR, flags, body: bodyOf(address) });
}

/** Nothing if the device does not have it. Throws as addLoopbackAddress does. */
export function removeLoopbackAddress(address: string): void {
  isAnswered('EADDRNOTAVAIL', { type: RTM.DELADDR, flags: NLM_F.ACK, body: bodyOf(address) });
}

function isAnswered(
  errno: string,
  request: { readonly type: number; readonly flags: number; readonly body: Uint8Array },
): boolean {
  try {
    netlinkRequest({ protocol: NETLINK_ROUTE, ...request });
    return false;
  } catch (error) {
    if (error instanceof Error && error.message === errno) return true;
    throw error;
  }
}
