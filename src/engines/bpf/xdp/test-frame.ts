// SPDX-License-Identifier: Apache-2.0
// The frame with which a device is tried: from its own address to its own address, so that no switch passes it on, with an
// EtherType for experiments (IEEE 802), so that no station reads it. Pure.
import { encodeU32 } from '../layout/layout.ts';

const FRAME = 60;
const EXPERIMENTS = [0x88, 0xb5];
/** As in struct test_frame of bpf/packet/xdp/xdp_watch.bpf.c. */
const IFINDEX_AT = 16;
const TEXT_AT = 20;

export function testFrame(mac: string, ifindex: number): Uint8Array {
  const bytes = new Uint8Array(FRAME);
  const address = Buffer.from(mac.replaceAll(':', ''), 'hex');
  bytes.set(address, 0);
  bytes.set(address, 6);
  bytes.set(EXPERIMENTS, 12);
  bytes.set(encodeU32(ifindex), IFINDEX_AT);
  bytes.set(Buffer.from('fairlead tries XDP'), TEXT_AT);
  return bytes;
}
