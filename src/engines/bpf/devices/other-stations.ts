// SPDX-License-Identifier: Apache-2.0
// Frames for other MAC addresses come in, too, by a device that listens to all, or whose switch floods. Where the stack drops them,
// nothing may translate or answer them. Pure.
import type { Network } from '../../../sys/netlink/network.ts';
import type { Link } from '../../../sys/netlink/records.ts';

/** Frames of the device below that have their MAC address come in by them afterwards, as their own. */
const ABOVE: readonly string[] = ['vlan', 'macvlan', 'macvtap'];

/**
 * The devices by which the stack drops such frames. Not where one may yet be for the node: by a master's port it may be for the master, and for a
 * device above that has another address, but no programs.
 */
export function devicesThatDropOthers(
  { links }: Network,
  hasPrograms: (ifindex: number) => boolean,
): ReadonlySet<number> {
  const all = [...links.values()];
  const upper = all.filter(
    ({ kind = '', isPeerElsewhere }) => ABOVE.includes(kind) && !isPeerElsewhere,
  );
  const dropping = all.filter(
    ({ ifindex, mac, master }) =>
      (master === undefined || links.get(master)?.kind === 'vrf') &&
      above(ifindex, upper).every(
        (one) => one.mac === mac || !one.isUp || hasPrograms(one.ifindex),
      ),
  );
  return new Set(dropping.map(({ ifindex }) => ifindex));
}

/** Also those above them, as VLANs in VLANs. */
function above(ifindex: number, upper: readonly Link[]): readonly Link[] {
  const next = upper.filter(({ below }) => below === ifindex);
  if (next.length === 0) return next;
  const rest = upper.filter(({ below }) => below !== ifindex);
  return [...next, ...next.flatMap((link) => above(link.ifindex, rest))];
}
