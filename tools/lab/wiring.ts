// SPDX-License-Identifier: Apache-2.0
// The network of a topology as lines of ip(8). Pure: which lines in which namespace, nothing is run here.
//
//   pod eth0 ──veth── v1 ┐                           10.1.<node>.10+  fd00:10:<node>::a+
//   pod eth0 ──veth── v2 ┴ br0 (node: .1, ::1) ── uplink ──veth── n1 ┐
//                                                  another node … n2 ┴ br0 (wire)
import type { Sandbox } from './sandbox.ts';

export interface Pod extends Sandbox {
  readonly nodeName: string;
  readonly ipv4: string;
  readonly ipv6: string;
}

export interface NodeHost extends Sandbox {
  /** 1-based: part of every address. */
  readonly index: number;
  /** The node's address on its pod bridge: what pods use as gateway. */
  readonly ipv4: string;
  readonly ipv6: string;
  readonly pods: readonly Pod[];
}

const FIRST_POD = 10;

export function nodeAddresses(node: number): { ipv4: string; ipv6: string } {
  return { ipv4: `10.1.${node}.1`, ipv6: `fd00:10:${node}::1` };
}

/** `pod` counts from 0; a /24 has room for 245 pods. */
export function podAddresses(node: number, pod: number): { ipv4: string; ipv6: string } {
  const host = FIRST_POD + pod;
  return { ipv4: `10.1.${node}.${host}`, ipv6: `fd00:10:${node}::${host.toString(16)}` };
}

/** The pod ranges of a node: its `spec.podCIDRs`. */
export function podCidrs(node: number): readonly string[] {
  return [`10.1.${node}.0/24`, `fd00:10:${node}::/64`];
}

/** Lines for a node's namespace: its bridge and one veth for each pod. */
export function nodeLines(node: NodeHost): string[] {
  return [
    'link set lo up',
    'link add br0 type bridge forward_delay 0 mcast_snooping 0',
    `addr add ${node.ipv4}/24 dev br0`,
    `addr add ${node.ipv6}/64 dev br0 nodad`,
    'link set br0 up',
    ...node.pods.flatMap((pod, index) => [
      `link add v${index + 1} type veth peer name eth0 netns ${pod.namespace}`,
      `link set v${index + 1} master br0 up`,
    ]),
  ];
}

/**
 * ClusterIPs of the tests and, from the documentation ranges (RFC 5737, RFC 3849), of the examples. Nothing
 * routes there, so a Service address that is not translated fails at once in the pod itself, with
 * EHOSTUNREACH, instead of after a timeout somewhere.
 */
export const SERVICE_RANGES = [
  '10.96.0.0/16',
  'fd00:96::/112',
  '192.0.2.0/24',
  '2001:db8::/64',
] as const;

interface Addresses {
  readonly ipv4: string;
  readonly ipv6: string;
}

/** Lines for a namespace whose only device is eth0. */
export const eth0Lines = (own: Addresses, gateway: Addresses): readonly string[] => [
  'link set lo up',
  `addr add ${own.ipv4}/24 dev eth0`,
  `addr add ${own.ipv6}/64 dev eth0 nodad`,
  'link set eth0 up',
  `route add default via ${gateway.ipv4}`,
  `route add default via ${gateway.ipv6}`,
];

export function podLines(pod: Pod, node: NodeHost): string[] {
  return [
    ...eth0Lines(pod, node),
    ...SERVICE_RANGES.map((range) => `route add unreachable ${range}`),
  ];
}

/** Lines for the namespace that stands for the network between nodes. */
export function wireLines(nodes: readonly NodeHost[]): string[] {
  return [
    'link add br0 type bridge forward_delay 0 mcast_snooping 0',
    'link set br0 up',
    ...nodes.flatMap(({ index, namespace }) => [
      `link add n${index} type veth peer name uplink netns ${namespace}`,
      `link set n${index} master br0 up`,
    ]),
  ];
}

/** Lines for a node that shares a wire: its own address there, and the way to the other nodes' pods. */
export function uplinkLines(node: NodeHost, nodes: readonly NodeHost[]): string[] {
  const others = nodes.filter(({ index }) => index !== node.index);
  return [
    `addr add 192.168.77.${node.index}/24 dev uplink`,
    `addr add fd00:77::${node.index}/64 dev uplink nodad`,
    'link set uplink up',
    ...others.flatMap(({ index }) => {
      const [ipv4, ipv6] = podCidrs(index);
      return [
        `route add ${ipv4} via 192.168.77.${index}`,
        `route add ${ipv6} via fd00:77::${index}`,
      ];
    }),
  ];
}

/**
 * Written before any interface is made. Duplicate address detection off: nobody else is on these wires,
 * and it would hold back link-local addresses, and so neighbour discovery, for a second. All ports there
 * are: one client makes thousands of connections.
 */
export const POD_SYSCTLS = {
  'net/ipv6/conf/default/accept_dad': '0',
  'net/ipv4/ip_local_port_range': '1024 65535',
} as const;

export const NODE_SYSCTLS = {
  ...POD_SYSCTLS,
  'net/ipv4/ip_forward': '1',
  'net/ipv6/conf/all/forwarding': '1',
} as const;
