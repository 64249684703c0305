// SPDX-License-Identifier: Apache-2.0
// Which devices get the packet programs, and why: every device by which packets of clients may come in or leave.
// Programs on more devices than needed do no harm, because a packet that was translated matches no more. Pure.
import { matchesGlob } from '../../../lib/glob.ts';
import { compareText } from '../../../lib/names.ts';
import type { Family } from '../../../model/types.ts';
import type { Network } from '../../../sys/netlink/network.ts';
import type { Link, LinkAddress } from '../../../sys/netlink/records.ts';

export interface DevicePolicy {
  /**
   * --devices: names with `*` and `?`; `!` before one excludes. `auto` stands for what is chosen without any; so
   * does a list that only excludes.
   */
  readonly patterns: readonly string[];
  /** How pods' devices are recognised; undefined: by their kind. */
  readonly podDevices: InterfaceDetector | undefined;
}

export type DeviceRole = 'pod' | 'tunnel' | 'bridge' | 'uplink';

export interface DeviceDecision {
  readonly link: Link;
  readonly isWanted: boolean;
  /** Why programs are attached, or why not: one clause. */
  readonly reason: string;
  readonly role: DeviceRole;
  /** Its packets begin with the IP header. */
  readonly isL3: boolean;
  /**
   * What comes in by it counts as a pod's whatever its source is: only if the local detector goes by devices. Else
   * the source decides, as in kube-proxy, also for what a pod's device brings.
   */
  readonly isPod: boolean;
  /** The stack drops what comes in by it for another MAC address. */
  readonly dropsOthers: boolean;
  /** Answers to what comes in by it leave by it: an uplink, the bridge of one, or a VPN. */
  readonly isUplink: boolean;
  readonly snat: SnatAddresses;
}

/** Every device of the namespace, by name. */
export function decideDevices(network: Network, policy: DevicePolicy): readonly DeviceDecision[] {
  const decisions = [...network.links.values()]
    .sort((a, b) => compareText(a.name, b.name))
    .map((link) => decide(link, network, policy));
  const wanted = decisions.filter(({ isWanted }) => isWanted).map(({ link }) => link.ifindex);
  const programmed = new Set(wanted);
  const dropping = devicesThatDropOthers(network, (ifindex) => programmed.has(ifindex));
  return decisions.map((one) => ({
    ...one,
    dropsOthers: dropping.has(one.link.ifindex),
    isUplink: isUplink(one, decisions, network),
  }));
}

const ETHERNET = 1;
/** ARPHRD_NONE, of tun, WireGuard and VXLAN-GPE: packets begin with the IP header. */
const NONE = 65_534;
/** ARPHRD_* of tunnels with an address at each end, which have no link header either. */
const IP_TUNNELS: readonly number[] = [
  768, // TUNNEL: ipip, vti
  769, // TUNNEL6
  776, // SIT
  778, // IPGRE
  823, // IP6GRE
];
/** ARPHRD_* of lines to a provider, without a link header. */
const LINES: readonly number[] = [
  512, // PPP
  519, // RAWIP: mobile broadband
];
const WITHOUT_HEADER: readonly number[] = [NONE, ...IP_TUNNELS, ...LINES];
const TUNNELS: readonly string[] = ['vxlan', 'geneve', 'gretap', 'ip6gretap'];
const BRIDGES: readonly string[] = ['bridge', 'openvswitch'];
const BONDS: readonly string[] = ['bond', 'team'];
/** Its ports have no packets of their own; a VRF's have. */
export const hasPorts = (kind: string): boolean => BRIDGES.includes(kind) || BONDS.includes(kind);
/** Packets of clients never come in by these. */
const USELESS: Readonly<Record<string, string>> = {
  dummy: 'a dummy device receives no packets',
  ifb: 'an ifb device only shapes the traffic of others',
  nlmon: 'an nlmon device only records netlink messages',
};

type Decided = Omit<DeviceDecision, 'dropsOthers' | 'isUplink'>;

/** Packets of a master's port are routed by the master. */
function isUplink({ role, link }: Decided, all: readonly Decided[], { links }: Network): boolean {
  if (role === 'bridge') {
    return all.some((one) => one.role === 'uplink' && one.link.master === link.ifindex);
  }
  const master = link.master === undefined ? undefined : links.get(link.master);
  return (role === 'uplink' && !hasPorts(master?.kind ?? '')) || (role === 'tunnel' && isVpn(link));
}

const VPNS: readonly string[] = ['tun', 'wireguard', 'ovpn'];
/** Clients come in by it; a CNI's WireGuard between nodes is one, too. */
const isVpn = ({ type, kind = '' }: Link): boolean => type === NONE && VPNS.includes(kind);

function decide(link: Link, network: Network, policy: DevicePolicy): Decided {
  const pod = podReason(link, network, policy.podDevices);
  const facts = {
    link,
    role: roleOf(link, pod !== undefined),
    isL3: WITHOUT_HEADER.includes(link.type),
    isPod: policy.podDevices !== undefined && pod !== undefined,
    snat: snatAddresses(network.addresses.get(link.ifindex) ?? []),
  };
  const never = impossibleReason(link);
  if (never !== undefined) return { ...facts, isWanted: false, reason: never };
  const chosen = byPattern(link.name, policy.patterns);
  if (chosen !== undefined) return { ...facts, ...chosen };
  const not = uselessReason(link, network, pod !== undefined);
  if (not !== undefined) return { ...facts, isWanted: false, reason: not };
  return { ...facts, isWanted: true, reason: pod ?? 'it is up' };
}

function roleOf({ kind = '', type }: Link, isPod: boolean): DeviceRole {
  if (isPod) return 'pod';
  if (BRIDGES.includes(kind)) return 'bridge';
  return TUNNELS.includes(kind) || type === NONE || IP_TUNNELS.includes(type) ? 'tunnel' : 'uplink';
}

/** Not even if --devices names it. */
function impossibleReason({ isLoopback, isUp, type }: Link): string | undefined {
  if (isLoopback) return 'the loopback device has only traffic of the node itself';
  if (type !== ETHERNET && !WITHOUT_HEADER.includes(type)) {
    return `its link layer (type ${type}) is neither Ethernet nor without headers`;
  }
  return isUp ? undefined : 'it is down';
}

type Chosen = Pick<DeviceDecision, 'isWanted' | 'reason'>;

/** undefined: the patterns leave it to the kind of the device. */
function byPattern(name: string, patterns: readonly string[]): Chosen | undefined {
  const excludes = patterns.filter((one) => one.startsWith('!'));
  const names = patterns.filter((one) => !one.startsWith('!'));
  const excluded = excludes.find((one) => matchesGlob(one.slice(1), name));
  if (excluded !== undefined) return { isWanted: false, reason: `--devices excludes ${excluded}` };
  const named = names.find((one) => one !== 'auto' && matchesGlob(one, name));
  if (named !== undefined) return { isWanted: true, reason: `--devices names ${named}` };
  if (names.length === 0 || names.includes('auto')) return undefined;
  return { isWanted: false, reason: '--devices does not name it' };
}

function uselessReason(link: Link, { links }: Network, isPod: boolean): string | undefined {
  const useless = USELESS[link.kind ?? ''];
  if (useless !== undefined) return useless;
  const master = link.master === undefined ? undefined : links.get(link.master);
  const kind = master?.kind ?? '';
  if (BONDS.includes(kind)) return `it is a port of ${kind} ${master?.name}, which is used instead`;
  if (BRIDGES.includes(kind) && !isPod) {
    return `it is a port of bridge ${master?.name}, which is used instead`;
  }
  return undefined;
}

// Frames for other MAC addresses come in, too, by a device that listens to all, or whose switch floods. Where the stack drops them,
// nothing may translate or answer them. Pure.

/** Frames of the device below that have their MAC address come in by them afterwards, as their own. */
const ABOVE: readonly string[] = ['vlan', 'macvlan', 'macvtap'];

/**
 * The devices by which the stack drops such frames. Not where one may yet be for the node: by a master's port it may be for the master, and for a
 * device above that has another address, but no programs.
 */
function devicesThatDropOthers(
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

// Which devices lead to a pod of this node: those that the configured detector names, else veth, netkit and tap
// devices. Pure.
type InterfaceDetector =
  | { readonly kind: 'interface'; readonly name: string }
  | { readonly kind: 'interface-prefix'; readonly prefix: string };

const PAIRS: readonly string[] = ['veth', 'netkit'];

/** The reason why it leads to a pod; undefined if it does not. */
function podReason(
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

/** A family without: packets leave with the node's primary address. */
type SnatAddresses = Readonly<Partial<Record<Family, string>>>;

/**
 * Global ones that peers may answer for long. Those with a subnet come first: a single address (/32, /128) is often a
 * virtual one that moves to another node. Of these IPv4 takes the kernel's first, as the MASQUERADE of netfilter, IPv6
 * the lowest, because the kernel has no lasting order.
 */
function snatAddresses(addresses: readonly LinkAddress[]): SnatAddresses {
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
