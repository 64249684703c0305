// SPDX-License-Identifier: Apache-2.0
// Networks with devices, numbered from 1 in this order.
import type { Network } from '../../../../../src/sys/netlink/network.ts';
import type { Link } from '../../../../../src/sys/netlink/records.ts';

type Device = string | (Partial<Link> & Pick<Link, 'name'>);

export const devices = (...all: readonly Device[]): Network => ({
  links: new Map(all.map((device, index) => [index + 1, linkOf(device, index + 1)])),
  addresses: new Map(),
});

const linkOf = (device: Device, ifindex: number): Link => ({
  ...{ ifindex, type: 1, isUp: true, isLoopback: false, kind: undefined, master: undefined },
  ...{ isPeerElsewhere: false, mac: undefined, below: undefined, mtu: 1500, tag: undefined },
  ...(typeof device === 'string' ? { name: device } : device),
});
