// SPDX-License-Identifier: Apache-2.0
// Where the running kernel has what bpf/packet/xdp/xdp_watch.bpf.c reads of a network device.
import { readKernelBtf } from './kernel.ts';
import { lookUp, type Member } from './member.ts';

/** In bytes. */
export interface DeviceOffsets {
  readonly ifindexAt: number;
  readonly netAt: number;
  /** Of the number of the namespace, in `struct net`. */
  readonly inumAt: number;
}

const MEMBERS: readonly Member[] = [
  { struct: 'net_device', member: 'ifindex' },
  { struct: 'net_device', member: 'nd_net' },
  { struct: 'net', member: 'ns' },
  { struct: 'ns_common', member: 'inum' },
];

/** undefined: the kernel has no BTF, or it does not tell. */
export function deviceOffsets(path?: string): DeviceOffsets | undefined {
  const found = readKernelBtf((read) => lookUp(read, { members: MEMBERS }).offsets, path);
  const [ifindex, net, ns, inum] = (found ?? []).map((bits) => (bits ?? Number.NaN) / 8);
  if (ifindex === undefined || net === undefined || ns === undefined || inum === undefined) {
    return undefined;
  }
  const offsets = { ifindexAt: ifindex, netAt: net, inumAt: ns + inum };
  return Object.values(offsets).every(Number.isInteger) ? offsets : undefined;
}
