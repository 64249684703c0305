// SPDX-License-Identifier: Apache-2.0
// Which devices lead to a pod of this node: those that the configured detector names, else veth, netkit and tap
// devices. Pure.
import type { Network } from '../../../sys/netlink/network.ts';
import type { Link } from '../../../sys/netlink/records.ts';

export type InterfaceDetector =
  | { readonly kind: 'interface'; readonly name: string }
  | { readonly kind: 'interface-prefix'; readonly prefix: string };

const ETHERNET = 1;
const PAIRS: readonly string[] = ['veth', 'netkit'];

/** The reason why it leads to a pod; undefined if it does not. */
export function podReason(
  link: Link,
  network: Network,
  detector: InterfaceDetector | undefined,
): string | undefined {
  if (detector !== undefined) return detectedBy(detector, link, network);
  const { kind = '', type } = link;
  if ((kind === 'tun' && type === ETHERNET) || kind === 'macvtap') {
    return 'it is the tap device of a virtual machine';
  }
  const isPair = PAIRS.includes(kind) && link.isPeerElsewhere;
  return isPair && !hasSubnet(link, network)
    ? 'its peer is in another network namespace, as that of a pod'
    : undefined;
}

/** As iptables matches `-i`: packets of a bridge's port come in by the bridge. */
function detectedBy(
  detector: InterfaceDetector,
  link: Link,
  { links }: Network,
): string | undefined {
  const master = link.master === undefined ? undefined : links.get(link.master);
  const names = [link.name, ...(master === undefined ? [] : [master.name])];
  if (detector.kind === 'interface') {
    const { name } = detector;
    return names.includes(name) ? `--pod-bridge-interface names ${name}` : undefined;
  }
  const { prefix } = detector;
  return names.some((name) => name.startsWith(prefix))
    ? `--pod-interface-name-prefix names ${prefix}*`
    : undefined;
}

/**
 * A node that runs in a container has a veth as its uplink, with an address in a subnet. The host's end of a pod's veth
 * has no address, or a gateway's (/32, /128), which it shares with the other pods' devices.
 */
const hasSubnet = ({ ifindex }: Link, { addresses }: Network): boolean =>
  (addresses.get(ifindex) ?? []).some(
    ({ isGlobal, family, prefixLength }) =>
      isGlobal && prefixLength < (family === 'IPv4' ? 32 : 128),
  );
