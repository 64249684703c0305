// SPDX-License-Identifier: Apache-2.0
// Builds the devices of a namespace from short descriptions.
import type { Network } from '../../../../../src/sys/netlink/network.ts';
import type { Link, LinkAddress } from '../../../../../src/sys/netlink/records.ts';

export type LinkSpec = Partial<Link> & {
  readonly ifindex: number;
  readonly name: string;
  /** `192.0.2.1/24`, then flags: `link`, `deprecated`, `tentative`, `temporary`. */
  readonly addresses?: readonly string[];
};

export function network(specs: readonly LinkSpec[]): Network {
  return {
    links: new Map(specs.map((spec) => [spec.ifindex, linkOf(spec)])),
    addresses: new Map(
      specs.map(({ ifindex, addresses = [] }) => [
        ifindex,
        addresses.map((text) => addressOf(ifindex, text)),
      ]),
    ),
  };
}

const linkOf = ({ addresses: _, ...link }: LinkSpec): Link => ({
  type: 1,
  isUp: true,
  isLoopback: false,
  kind: undefined,
  master: undefined,
  isPeerElsewhere: false,
  mac: `02:00:00:00:00:${link.ifindex.toString(16).padStart(2, '0')}`,
  below: undefined,
  mtu: 1500,
  tag: undefined,
  ...link,
});

function addressOf(ifindex: number, text: string): LinkAddress {
  const [prefix = '', ...flags] = text.split(' ');
  const [address = '', length] = prefix.split('/');
  return {
    ifindex,
    family: address.includes(':') ? 'IPv6' : 'IPv4',
    address,
    prefixLength: Number(length),
    isGlobal: !flags.includes('link') && !address.startsWith('fe80'),
    isDeprecated: flags.includes('deprecated'),
    isTentative: flags.includes('tentative'),
    isTemporary: flags.includes('temporary'),
  };
}
