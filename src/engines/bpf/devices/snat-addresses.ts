// SPDX-License-Identifier: Apache-2.0
// The addresses of a device that masqueraded packets leave with, one for each family. Pure.
import { compareText } from '../../../lib/names.ts';
import type { Family } from '../../../model/types.ts';
import type { LinkAddress } from '../../../sys/netlink/records.ts';

/** A family without: packets leave with the node's primary address. */
export type SnatAddresses = Readonly<Partial<Record<Family, string>>>;

/**
 * Global ones that peers may answer for long. Those with a subnet come first: a single address (/32, /128) is often a
 * virtual one that moves to another node. Of these IPv4 takes the kernel's first, as the MASQUERADE of netfilter, IPv6
 * the lowest, because the kernel has no lasting order.
 */
export function snatAddresses(addresses: readonly LinkAddress[]): SnatAddresses {
  const ipv4 = best(addresses, 'IPv4', 32)[0];
  const [ipv6] = [...best(addresses, 'IPv6', 128)].sort(compareText);
  return { ...(ipv4 !== undefined && { IPv4: ipv4 }), ...(ipv6 !== undefined && { IPv6: ipv6 }) };
}

function best(
  addresses: readonly LinkAddress[],
  family: Family,
  hostLength: number,
): readonly string[] {
  const usable = addresses.filter((one) => one.family === family && isLasting(one));
  const withSubnet = usable.filter(({ prefixLength }) => prefixLength < hostLength);
  return (withSubnet.length > 0 ? withSubnet : usable).map(({ address }) => address);
}

/** In IPv4 the flag of temporary addresses marks further ones of a subnet, which last. */
const isLasting = ({ family, isGlobal, ...flags }: LinkAddress): boolean =>
  isGlobal &&
  !flags.isDeprecated &&
  !flags.isTentative &&
  !(family === 'IPv6' && flags.isTemporary);
