// SPDX-License-Identifier: Apache-2.0
// Which devices are in the flowtable: those by which packets of connections that are routed here come in. Pure.
import { matchesGlob } from '../../../lib/glob.ts';
import type { Network } from '../../../sys/netlink/network.ts';
import type { Link } from '../../../sys/netlink/records.ts';

/** --nftables-offload without any device. */
export const NO_OFFLOAD = 'off';

/** Their names by ifindex. @param patterns of --nftables-offload */
export const chosenDevices = (
  { links }: Pick<Network, 'links'>,
  patterns: readonly string[],
): ReadonlyMap<number, string> =>
  new Map(
    [...links.values()]
      .filter((link) => isChosen(link, patterns))
      .map(({ ifindex, name }) => [ifindex, name]),
  );

/** `auto` stands for what is chosen without any name; so does a list that only excludes. */
function isChosen(link: Link, patterns: readonly string[]): boolean {
  const excluded = patterns.filter((one) => one.startsWith('!')).map((one) => one.slice(1));
  // Nothing that nft reads otherwise is in its script.
  if (
    link.name.includes('"') ||
    link.isLoopback ||
    excluded.some((one) => matchesGlob(one, link.name))
  )
    return false;
  const named = patterns.filter((one) => !one.startsWith('!'));
  const isAuto = named.length === 0 || named.includes('auto');
  return (
    // What comes in by a port of a bridge is routed as the bridge's.
    (isAuto && link.master === undefined && link.kind !== 'dummy') ||
    named.some((one) => one !== 'auto' && matchesGlob(one, link.name))
  );
}
