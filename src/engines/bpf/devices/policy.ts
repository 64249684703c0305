// SPDX-License-Identifier: Apache-2.0
// Which devices get the packet programs, and why: every device by which packets of clients may come in or leave.
// Programs on more devices than needed do no harm, because a packet that was translated matches no more. Pure.
import { matchesGlob } from '../../../lib/glob.ts';
import { compareText } from '../../../lib/names.ts';
import type { Network } from '../../../sys/netlink/network.ts';
import type { Link } from '../../../sys/netlink/records.ts';
import { devicesThatDropOthers } from './other-stations.ts';
import { type InterfaceDetector, podReason } from './pods.ts';
import { type SnatAddresses, snatAddresses } from './snat-addresses.ts';

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
