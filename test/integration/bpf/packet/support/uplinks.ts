// SPDX-License-Identifier: Apache-2.0
// A network namespace for the program at XDP, which asks the kernel's tables for the way on: two uplinks, a device towards a pod of this
// node, and the stations beyond them. The process stays in it.
import { runSync } from '../../../../../src/sys/exec.ts';
import { unshareNetwork } from '../../../../../src/sys/native.ts';

export interface Uplink {
  readonly name: string;
  readonly ifindex: number;
  readonly mac: string;
}

/** Of the frames of packets as text: to this device, from this station. */
const OWN_MAC = '02:00:00:00:00:01';
export const ROUTER_MAC = '02:00:00:00:00:02';
export const NEIGHBOUR_MAC = '02:00:00:00:00:03';

/** By it packets come, and those to pods of other nodes leave. */
export const UPLINK: Uplink = { name: 'up0', ifindex: 10, mac: OWN_MAC };
/** Others leave by this one. */
export const SECOND: Uplink = { name: 'up1', ifindex: 11, mac: '02:00:00:00:01:01' };
/** To a pod of this node. */
export const POD: Uplink = { name: 'pod0', ifindex: 12, mac: '02:00:00:00:02:01' };

/**
 * Clients beyond a router on the first uplink. Pods of the fourth byte (IPv6: last word) 5 by the same one, 6 by the second, 7 by that of the pod;
 * the neighbour for 8 is not known, packets to 9 may have 600 bytes (IPv6: 1,290), 10 is forbidden, 11 is unreachable; no route leads to the others.
 */
const SETUP = `
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv6.conf.default.accept_dad=0
${[UPLINK, SECOND, POD].map(({ name, ifindex, mac }) => `ip link add ${name} index ${ifindex} address ${mac} type veth peer name ${name}-far; ip link set ${name} up; ip link set ${name}-far up`).join('\n')}
ip addr add 192.0.2.11/24 dev up0; ip -6 addr add 2001:db8::11/64 dev up0 nodad
ip neigh add 192.0.2.1 lladdr ${ROUTER_MAC} dev up0 nud permanent; ip neigh add 2001:db8::1 lladdr ${ROUTER_MAC} dev up0 nud permanent
ip route add 198.51.100.0/24 via 192.0.2.1; ip -6 route add 2001:db8:9::/64 via 2001:db8::1
`;

const BACKENDS = `
ip neigh add 192.0.2.12 lladdr ${NEIGHBOUR_MAC} dev up0 nud permanent; ip neigh add 2001:db8::12 lladdr ${NEIGHBOUR_MAC} dev up0 nud permanent
ip route add 10.1.1.5 via 192.0.2.12; ip -6 route add fd00:1:1::5 via 2001:db8::12
ip addr add 172.20.0.1/24 dev up1; ip -6 addr add fd00:20::1/64 dev up1 nodad
ip neigh add 172.20.0.2 lladdr ${NEIGHBOUR_MAC} dev up1 nud permanent; ip neigh add fd00:20::2 lladdr ${NEIGHBOUR_MAC} dev up1 nud permanent
ip route add 10.1.1.6 via 172.20.0.2; ip -6 route add fd00:1:1::6 via fd00:20::2
ip route add 10.1.1.7 dev pod0; ip -6 route add fd00:1:1::7 dev pod0
ip neigh add 10.1.1.7 lladdr ${NEIGHBOUR_MAC} dev pod0 nud permanent; ip neigh add fd00:1:1::7 lladdr ${NEIGHBOUR_MAC} dev pod0 nud permanent
ip route add 10.1.1.8 via 192.0.2.99; ip -6 route add fd00:1:1::8 via 2001:db8::99
ip route add 10.1.1.9 via 192.0.2.12 mtu lock 600; ip -6 route add fd00:1:1::9 via 2001:db8::12 mtu lock 1290
ip route add prohibit 10.1.1.10; ip -6 route add prohibit fd00:1:1::10
ip route add unreachable 10.1.1.11; ip -6 route add unreachable fd00:1:1::11
`;

/** Every backend by the first uplink. */
const ONE_WAY = `
ip route add 10.1.1.0/24 via 192.0.2.12; ip -6 route add fd00:1:1::/64 via 2001:db8::12
ip neigh add 192.0.2.12 lladdr ${NEIGHBOUR_MAC} dev up0 nud permanent; ip neigh add 2001:db8::12 lladdr ${NEIGHBOUR_MAC} dev up0 nud permanent
`;
const ROUTES = { 'one way': ONE_WAY, each: BACKENDS } as const;

export function enterUplinks(routes: keyof typeof ROUTES): void {
  unshareNetwork();
  const script = `set -e\nip link set lo up${SETUP}${ROUTES[routes]}`;
  const { code, stderr } = runSync('sh', ['-c', script]);
  if (code !== 0) throw new Error(`uplinks: ${stderr}`);
}

/** In the namespace of the process. */
export function ip(line: string): void {
  const { code, stderr } = runSync('ip', line.split(' '));
  if (code !== 0) throw new Error(`ip ${line}: ${stderr}`);
}
