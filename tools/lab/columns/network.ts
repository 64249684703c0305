// SPDX-License-Identifier: Apache-2.0
// The network of one column as lines of ip(8): a node between a client outside the cluster, two pods of its own and a
// second node with another pod. Each column has one of its own, with the same addresses. Pure.
//
//   client 198.51.100.9 ── eth0 .1  node  pod0 ── pod 10.1.1.5
//                                         pod1 ── inside 10.1.1.6
//                                   far0 192.0.2.11 ── 192.0.2.12  far  pod0 ── farpod 10.1.2.5
//                                   mgmt 172.31.0.* ── api 172.31.0.1

export const NODE_ADDRESS = '198.51.100.1';
export const API_ADDRESS = '172.31.0.1';
export const PODS = { local: '10.1.1.5', remote: '10.1.2.5' } as const;
/** A pod that only sends. */
const INSIDE = '10.1.1.6';
/** Every address of it is the far pod's: endpoints that are as many as one likes, and all answer. */
export const FAR_RANGE = '10.1.64.0/18';
/** Halves of it. */
export const FAR_HALVES = ['10.1.64.0/19', '10.1.96.0/19'] as const;
export const CLUSTER_CIDR = '10.1.0.0/16';
/** The namespaces of a column, without `api`, which all columns share. */
export const MEMBERS = ['client', 'node', 'pod', 'inside', 'far', 'farpod'] as const;
export type Member = (typeof MEMBERS)[number];

const GATEWAY = '169.254.1.1';
const GATEWAY_MAC = 'ee:ee:ee:ee:ee:ee';

export interface ColumnNames {
  /** From 0. */
  readonly index: number;
  /** The namespace of a member, or of `api`. */
  nameOf(member: Member | 'api'): string;
}

/** In this order: a line may need an interface that an earlier member's lines have made. */
export function columnLines(names: ColumnNames): readonly (readonly [Member, readonly string[]])[] {
  return [
    ['node', nodeLines(names)],
    ['client', endLines('198.51.100.9/24', NODE_ADDRESS)],
    ['far', farLines(names)],
    ['pod', podLines(PODS.local)],
    ['inside', podLines(INSIDE)],
    ['farpod', [...podLines(PODS.remote), `route add local ${FAR_RANGE} dev lo`]],
  ];
}

/** The namespace of the API server. */
export const apiLines = [
  'link set lo up',
  'link add br0 type bridge forward_delay 0',
  `addr add ${API_ADDRESS}/24 dev br0`,
  'link set br0 up',
] as const;

function nodeLines({ index, nameOf }: ColumnNames): string[] {
  return [
    'link set lo up',
    `link add eth0 type veth peer name eth0 netns ${nameOf('client')}`,
    `addr add ${NODE_ADDRESS}/24 dev eth0`,
    'link set eth0 up',
    `link add far0 type veth peer name eth0 netns ${nameOf('far')}`,
    'addr add 192.0.2.11/24 dev far0',
    'link set far0 up',
    ...attachPod('pod0', nameOf('pod'), PODS.local),
    ...attachPod('pod1', nameOf('inside'), INSIDE),
    'route add 10.1.2.0/24 via 192.0.2.12',
    `route add ${FAR_RANGE} via 192.0.2.12`,
    `link add mgmt type veth peer name c${index} netns ${nameOf('api')}`,
    `addr add 172.31.0.${10 + index}/24 dev mgmt`,
    'link set mgmt up',
  ];
}

function farLines({ nameOf }: ColumnNames): string[] {
  return [
    ...endLines('192.0.2.12/24', '192.0.2.11'),
    ...attachPod('pod0', nameOf('farpod'), PODS.remote),
    `route add ${FAR_RANGE} via ${PODS.remote} dev pod0 onlink`,
  ];
}

const attachPod = (device: string, namespace: string, address: string): string[] => [
  `link add ${device} type veth peer name eth0 netns ${namespace}`,
  `link set ${device} address ${GATEWAY_MAC} up`,
  `route add ${address}/32 dev ${device}`,
];

const endLines = (address: string, gateway: string): string[] => [
  'link set lo up',
  `addr add ${address} dev eth0`,
  'link set eth0 up',
  `route add default via ${gateway}`,
];

const podLines = (address: string): string[] => [
  'link set lo up',
  `addr add ${address}/32 dev eth0`,
  'link set eth0 up',
  `neigh add ${GATEWAY} lladdr ${GATEWAY_MAC} dev eth0 nud permanent`,
  `route add ${GATEWAY} dev eth0 scope link`,
  `route add default via ${GATEWAY} dev eth0`,
];
