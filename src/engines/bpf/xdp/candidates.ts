// SPDX-License-Identifier: Apache-2.0
// Devices as XDP has them: with the ports of bonds, and VLANs with the device below. Pure.
import type { Network } from '../../../sys/netlink/network.ts';
import type { DeviceDecision } from '../devices/policy.ts';
import { decideVlan, decideXdp } from './policy.ts';
import type { XdpCandidate } from './xdp-follower.ts';

type Decision = DeviceDecision & { readonly isAttached: boolean };

export function candidatesOf(
  decisions: readonly Decision[],
  network: Network,
  entries: readonly string[],
): readonly XdpCandidate[] {
  const byIfindex = new Map(decisions.map((one) => [one.link.ifindex, one]));
  return decisions.map((decision) => {
    const { ifindex, name, mac, kind, tag, isPeerElsewhere } = decision.link;
    const facts = { ifindex, name, mac, hasTc: decision.isAttached };
    if (kind !== 'vlan') {
      const ports = kind === 'bond' ? portsOf(ifindex, network) : [];
      return { ...facts, ...decideXdp(decision, network, entries), ports };
    }
    const below = isPeerElsewhere ? undefined : byIfindex.get(decision.link.below ?? 0);
    if (below === undefined) return { ...facts, ...decideVlan(decision, undefined, entries) };
    const of = { name: below.link.name, decision: decideXdp(below, network, entries) };
    const end = { ifindex: below.link.ifindex, tag: tag ?? 0 };
    return { ...facts, ...decideVlan(decision, of, entries), below: end };
  });
}

const portsOf = (bond: number, { links }: Network): readonly number[] =>
  [...links.values()].filter(({ master }) => master === bond).map(({ ifindex }) => ifindex);
