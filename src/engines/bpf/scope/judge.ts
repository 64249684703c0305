// SPDX-License-Identifier: Apache-2.0
// From what was read in a network namespace to who serves its sockets. Pure.
import type { Network } from '../../../sys/netlink/network.ts';
import type { Redirect } from '../../../sys/netlink/redirect.ts';
import { type Found, foundIn, type ScopeEntry } from './state.ts';

/** A device of the node that leads to pods. */
export interface PodDevice {
  readonly ifindex: number;
  /** What comes in by it is translated. */
  readonly isServed: boolean;
}

/**
 * How its packets leave a namespace. `served`: by a device of the node where they are translated; `nested`: by a pair of devices
 * that ends in another namespace; `unserved`: by any other device (macvlan, ipvlan, one of the node without programs); `none`.
 */
export type Way = 'served' | 'nested' | 'unserved' | 'none';

export interface Look {
  readonly redirects: readonly Redirect[];
  readonly way: Way;
}

const PAIRS: readonly (string | undefined)[] = ['veth', 'netkit'];

/** @param inside the devices of the namespace @param devices of the node, by the kernel's number */
export function wayOf(
  inside: Pick<Network, 'links'>,
  node: Pick<Network, 'links'>,
  devices: readonly PodDevice[],
): Way {
  const ways = [...inside.links.values()]
    .filter(({ isUp, isLoopback }) => isUp && !isLoopback)
    .map(({ ifindex, kind, below, isPeerElsewhere }): Way => {
      if (!PAIRS.includes(kind) || !isPeerElsewhere || below === undefined) return 'unserved';
      const peer = node.links.get(below);
      if (!PAIRS.includes(peer?.kind) || peer?.below !== ifindex) return 'nested';
      return devices.some((one) => one.ifindex === below && one.isServed) ? 'served' : 'unserved';
    });
  // Its default route is by one of them; further devices (Multus) are for networks without Services.
  return (['served', 'nested', 'unserved'] as const).find((way) => ways.includes(way)) ?? 'none';
}

export function judged(
  { redirects, way }: Look,
  tgid: number,
): Pick<ScopeEntry, 'tgid' | 'found' | 'state'> {
  const isServed = way === 'served';
  const found: readonly Found[] = [...foundIn(redirects), ...(isServed ? [] : ['no-way' as const])];
  return { tgid, found, state: redirects.length > 0 && isServed ? 'packets' : 'sockets' };
}

/**
 * Who serves a namespace before it has been looked at. As packets, if this node has pods that redirect, because a new one may be
 * of their kind, and none that uses Services and whose packets go a way on which nobody translates them. To a pod without redirects it makes no difference.
 */
export function unlookedState(
  known: Iterable<{
    readonly way: Way;
    readonly isAsPackets: boolean;
    readonly hasAsked: boolean;
  }>,
): 'sockets' | 'packets' {
  const all = [...known];
  return all.some(({ isAsPackets }) => isAsPackets) &&
    !all.some(({ way, hasAsked }) => hasAsked && way === 'unserved')
    ? 'packets'
    : 'sockets';
}
