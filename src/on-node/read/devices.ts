// SPDX-License-Identifier: Apache-2.0
// What the devices of the node tell: its uplinks, their addresses, their reverse path filters.
import { readFileSync } from 'node:fs';
import type { Network } from '../../sys/netlink/network.ts';
import type { Link } from '../../sys/netlink/records.ts';
import type { LocalAddress, ReversePath } from '../facts.ts';

const CONF = '/proc/sys/net/ipv4/conf';
const MODES = ['off', 'strict', 'loose'] as const;
/** Devices of software, which lead to no other machine by themselves. */
const WITHIN = [
  'bridge',
  'dummy',
  'vxlan',
  'geneve',
  'ipip',
  'sit',
  'ip6tnl',
  'wireguard',
  'tun',
  'ifb',
];

/** Devices that lead to other machines: up, with an address of a network of their own. */
export const uplinksIn = ({ links, addresses }: Network): readonly string[] =>
  [...links.values()]
    .filter(({ isUp, isLoopback, kind }) => isUp && !isLoopback && !WITHIN.includes(kind ?? ''))
    .filter(({ ifindex }) =>
      (addresses.get(ifindex) ?? []).some(
        ({ isGlobal, family, prefixLength }) =>
          isGlobal && prefixLength < (family === 'IPv4' ? 32 : 128),
      ),
    )
    .map(({ name }) => name);

export const addressesIn = ({ links, addresses }: Network): readonly LocalAddress[] =>
  [...links.values()].flatMap(({ ifindex, name: device }) =>
    (addresses.get(ifindex) ?? []).map(({ address }) => ({ device, address })),
  );

/** Of devices that are no pod's. Throws if there is no such setting. */
export function reversePaths({ links, addresses }: Network): readonly ReversePath[] {
  const isPods = ({ kind, ifindex }: Link): boolean => kind === 'veth' && !addresses.has(ifindex);
  const all = settingOf('all');
  return [...links.values()]
    .filter((link) => link.isUp && !link.isLoopback && !isPods(link))
    .flatMap(({ name: device }) => {
      const mode = MODES[Math.max(all, settingOrZero(device))];
      return mode === undefined ? [] : [{ device, mode }];
    });
}

const settingOf = (name: string): number =>
  Number(readFileSync(`${CONF}/${name}/rp_filter`, 'utf8'));

/** A device may have gone since. */
function settingOrZero(device: string): number {
  try {
    return settingOf(device);
  } catch {
    return 0;
  }
}
