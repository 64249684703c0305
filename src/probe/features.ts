// SPDX-License-Identifier: Apache-2.0
// What fairlead uses of a kernel, of this process and of this node: what for, what it means if it is missing, and what
// would change that. docs/probe.md has the same list (a test compares them). Pure.

export interface Feature {
  readonly group:
    | 'process'
    | 'BPF'
    | 'sockets'
    | 'packets'
    | 'iptables'
    | 'nftables'
    | 'userspace'
    | 'node';
  readonly neededFor: string;
  /** If the answer is not yes. */
  readonly consequence: string;
  /** What would change the answer. */
  readonly remedy: string;
}

const NO_BPF = 'Services are served by rules';
const NO_PACKETS = 'packets are served by rules; sockets of this node by eBPF';
const GRANT = (capability: string): string =>
  `grant ${capability} (securityContext.capabilities.add), or run as root`;
const NEWER = (version: string): string => `Linux ${version} or newer`;

const hook = (neededFor: string): Feature => ({
  group: 'sockets',
  neededFor,
  consequence: NO_BPF,
  remedy: NEWER('5.10'),
});

const match = (name: string, neededFor: string, consequence: string): Feature => ({
  group: 'iptables',
  neededFor,
  consequence,
  remedy: `load the module ${name}, or boot a kernel that has it`,
});

const NO_RULES = 'iptables cannot serve Services';

/** In the order in which they are shown. */
export const FEATURES = {
  CAP_BPF: {
    group: 'process',
    neededFor: 'loading programs and creating maps',
    consequence: NO_BPF,
    remedy: GRANT('CAP_BPF'),
  },
  CAP_NET_ADMIN: {
    group: 'process',
    neededFor: 'network programs, attaching them, rules',
    consequence: 'nothing can be programmed',
    remedy: GRANT('CAP_NET_ADMIN'),
  },
  CAP_PERFMON: {
    group: 'process',
    neededFor: "programs that read the kernel's own structs",
    consequence: NO_BPF,
    remedy: GRANT('CAP_PERFMON'),
  },
  CAP_SYS_ADMIN: {
    group: 'process',
    neededFor: 'entering the network namespaces of pods',
    consequence:
      'sockets whose endpoint is gone are destroyed in the own network namespace only. Those of pods are refused with their next datagram. Most of this probe cannot tell',
    remedy: GRANT('CAP_SYS_ADMIN'),
  },
  'bpf()': {
    group: 'BPF',
    neededFor: 'everything in eBPF',
    consequence: NO_BPF,
    remedy: 'allow bpf(2) in the seccomp profile of the container, and its capabilities',
  },
  BTF: {
    group: 'BPF',
    neededFor: 'maps with types, socket storage, iterators over sockets',
    consequence: NO_BPF,
    remedy: 'a distribution kernel (CONFIG_DEBUG_INFO_BTF)',
  },
  'batch operations': {
    group: 'BPF',
    neededFor: 'reading and writing maps of thousands of entries at once',
    consequence: NO_BPF,
    remedy: NEWER('5.6'),
  },
  'mmapable arrays': {
    group: 'BPF',
    neededFor: 'frontends, backends and sets through shared memory',
    consequence: NO_BPF,
    remedy: NEWER('5.5'),
  },
  SK_STORAGE: {
    group: 'BPF',
    neededFor: 'what a socket was translated to',
    consequence: NO_BPF,
    remedy: NEWER('5.10'),
  },
  'ring buffer': {
    group: 'BPF',
    neededFor: 'telling the agent of new network namespaces',
    consequence: NO_BPF,
    remedy: NEWER('5.8'),
  },
  for_each: {
    group: 'BPF',
    neededFor: 'nothing yet: a function for each element of a map',
    consequence: 'none',
    remedy: NEWER('5.14'),
  },
  bpf_loop: {
    group: 'BPF',
    neededFor: 'nothing yet: loops without unrolling',
    consequence: 'none',
    remedy: NEWER('5.17'),
  },
  'cgroup v2': {
    group: 'sockets',
    neededFor: 'attaching the socket hooks',
    consequence: NO_BPF,
    remedy: 'mount a cgroup v2 hierarchy (beside v1 is enough), writable',
  },
  'cgroup links': {
    group: 'sockets',
    neededFor: 'hooks that outlive the agent and are replaced in place',
    consequence: NO_BPF,
    remedy: NEWER('5.7'),
  },
  'socket programs': {
    group: 'sockets',
    neededFor: 'Services for sockets of this node, by eBPF',
    consequence: NO_BPF,
    remedy: 'what the reason names; else report it with the log of the verifier',
  },
  connect4: hook('connect() of IPv4'),
  connect6: hook('connect() of IPv6'),
  sendmsg4: hook('unconnected UDP of IPv4'),
  sendmsg6: hook('unconnected UDP of IPv6'),
  recvmsg4: hook('the source of replies over UDP, IPv4'),
  recvmsg6: hook('the source of replies over UDP, IPv6'),
  getpeername4: hook('getpeername() shows the Service, IPv4'),
  getpeername6: hook('getpeername() shows the Service, IPv6'),
  post_bind4: hook('NodePorts cannot be bound by processes of the node, IPv4'),
  post_bind6: hook('NodePorts cannot be bound by processes of the node, IPv6'),
  sock_release: hook('counting closed connections'),
  SO_NETNS_COOKIE: {
    group: 'sockets',
    neededFor: 'telling sockets of the node from those of its pods',
    consequence:
      'by eBPF, NodePorts do not answer at 127.0.0.1, and processes of the node may bind them',
    remedy: NEWER('5.14'),
  },
  set_retval: {
    group: 'sockets',
    neededFor: 'refused connections fail with ECONNREFUSED',
    consequence: 'they fail with EPERM, at once as well',
    remedy: NEWER('6.1'),
  },
  bpf_sock_destroy: {
    group: 'sockets',
    neededFor: 'destroying sockets whose endpoint is gone',
    consequence: 'SOCK_DESTROY is used, if the kernel has it',
    remedy: NEWER('6.5'),
  },
  'map iterators': {
    group: 'sockets',
    neededFor: 'finding sockets whose endpoint is gone, in whatever network namespace',
    consequence:
      'they are found by walking the sockets of each network namespace that the agent may enter and sees, at a higher cost. An update that changes the records of UDP sockets loses them',
    remedy: 'a kernel whose security policy lets root load iterators over maps',
  },
  SOCK_DESTROY: {
    group: 'node',
    neededFor: 'destroying sockets whose endpoint is gone, before Linux 6.5',
    consequence:
      'without bpf_sock_destroy, too: UDP sockets keep sending to endpoints that are gone',
    remedy: 'CONFIG_INET_DIAG_DESTROY and the modules inet_diag, tcp_diag and udp_diag',
  },
  tcx: {
    group: 'packets',
    neededFor: 'packet programs that are first, or last, whatever others attach later',
    consequence: 'clsact filters with the first and the last priority, if the kernel has them',
    remedy: NEWER('6.6'),
  },
  clsact: {
    group: 'packets',
    neededFor: 'packet programs before Linux 6.6',
    consequence: 'without tcx, too: packets are served by rules',
    remedy: 'the modules sch_ingress and cls_bpf',
  },
  softirqs: {
    group: 'packets',
    neededFor: 'packet programs: on each CPU one packet after the other',
    consequence: NO_PACKETS,
    remedy: 'a kernel without PREEMPT_RT',
  },
  'packet programs': {
    group: 'packets',
    neededFor: 'Services for packets: clients outside, virtual machines, SCTP',
    consequence: NO_PACKETS,
    remedy: `${NEWER('5.12')}, or what the reason names; else report it with the log of the verifier`,
  },
  'in-kernel sweep': {
    group: 'packets',
    neededFor: 'ending expired connections',
    consequence:
      'connections of packets that are over stay until others need their slots, and the table of connections does not grow',
    remedy: `${NEWER('5.12')}; else report it with the reason`,
  },
  XDP: {
    group: 'packets',
    neededFor: '--xdp: forwarding packets before the network stack',
    consequence: 'no device has XDP: all packets pass the network stack',
    remedy: `${NEWER('5.18')}, with BTF`,
  },
  'direct return': {
    group: 'packets',
    neededFor: 'fairlead.io/forwarding: dsr, hybrid and ipip',
    consequence: 'they are as snat: requests to other nodes are masqueraded',
    remedy: `${NEWER('5.12')}; else report it with the reason`,
  },
  'iptables-nft': {
    group: 'iptables',
    neededFor: 'rules of IPv4, if nft is in use on this node',
    consequence: 'iptables-legacy is used, if it works',
    remedy: 'the package iptables, and the modules nf_tables and nft_compat',
  },
  'ip6tables-nft': {
    group: 'iptables',
    neededFor: 'rules of IPv6, if nft is in use on this node',
    consequence: 'ip6tables-legacy is used, if it works',
    remedy: 'the package iptables, and the modules nf_tables and nft_compat',
  },
  'iptables-legacy': {
    group: 'iptables',
    neededFor: 'rules of IPv4, if legacy is in use on this node',
    consequence: 'iptables-nft is used, if it works',
    remedy: 'the package iptables, and the modules ip_tables, iptable_nat and iptable_filter',
  },
  'ip6tables-legacy': {
    group: 'iptables',
    neededFor: 'rules of IPv6, if legacy is in use on this node',
    consequence: 'ip6tables-nft is used, if it works',
    remedy: 'the package iptables, and the modules ip6_tables, ip6table_nat and ip6table_filter',
  },
  xt_comment: match('xt_comment', 'the name of the Service in each rule', NO_RULES),
  xt_conntrack: match('xt_conntrack', 'replies, and the states of connections', NO_RULES),
  xt_addrtype: match('xt_addrtype', 'NodePorts: which addresses are local', NO_RULES),
  xt_mark: match('xt_mark', 'masquerade', NO_RULES),
  xt_statistic: match('xt_statistic', 'the choice between endpoints', NO_RULES),
  xt_sctp: match('xt_sctp', 'Services of SCTP, and refusing other ports', NO_RULES),
  MASQUERADE: match('xt_MASQUERADE', "the node's address as the source", NO_RULES),
  REJECT: match(
    'ipt_REJECT (ip6t_REJECT)',
    'refusing connections to Services without endpoints',
    NO_RULES,
  ),
  xt_recent: match(
    'xt_recent',
    'session affinity by rules',
    'no session affinity for what iptables serves',
  ),
  xt_nfacct: match('xt_nfacct', 'counters of dropped packets by rules', 'those are not counted'),
  'nftables IPv4': {
    group: 'nftables',
    neededFor: 'rules of IPv4, unless this node uses iptables',
    consequence: 'nftables cannot serve Services',
    remedy:
      'the package nftables (1.0.1 or newer), and the modules nf_tables, nft_nat and nft_fib_ipv4',
  },
  'nftables IPv6': {
    group: 'nftables',
    neededFor: 'rules of IPv6, unless this node uses iptables',
    consequence: 'nftables serves Services of IPv4 only',
    remedy:
      'the package nftables (1.0.1 or newer), and the modules nf_tables, nft_nat and nft_fib_ipv6',
  },
  flowtable: {
    group: 'nftables',
    neededFor: '--nftables-offload: established TCP connections past the rules',
    consequence: 'nftables serves Services without it',
    remedy: 'the modules nf_flow_table_inet and nft_flow_offload',
  },
  'relay thread': {
    group: 'userspace',
    neededFor: '--engine userspace: TCP connections without JavaScript',
    consequence: 'streams of Node relay them, several times slower',
    remedy: 'a build of fairlead for this system: its addon loads on Linux alone',
  },
  'loopback addresses': {
    group: 'userspace',
    neededFor: '--engine userspace: Services at their own addresses',
    consequence: 'ports of 127.0.0.1 stand for them',
    remedy: GRANT('CAP_NET_ADMIN'),
  },
  IPv6: {
    group: 'node',
    neededFor: 'Services of IPv6',
    consequence: 'Services of IPv4 only',
    remedy: 'boot without ipv6.disable=1, or load the module ipv6',
  },
  nf_conntrack: {
    group: 'node',
    neededFor: 'rules, and masquerade by others',
    consequence: 'rules cannot serve Services',
    remedy: 'load the module nf_conntrack on the node',
  },
  ctnetlink: {
    group: 'node',
    neededFor: 'deleting conntrack entries of endpoints that are gone',
    consequence: 'what iptables has translated over UDP keeps going to endpoints that are gone',
    remedy: 'load the module nf_conntrack_netlink on the node',
  },
  route_localnet: {
    group: 'node',
    neededFor: 'NodePorts at 127.0.0.1 by rules',
    consequence: 'with iptables, NodePorts are not served at 127.0.0.1',
    remedy: 'a writable /proc/sys/net (not the read-only one of a container)',
  },
} as const satisfies Readonly<Record<string, Feature>>;

export type FeatureName = keyof typeof FEATURES;

export const FEATURE_NAMES = Object.keys(FEATURES) as readonly FeatureName[];

/** All that sockets of the agent use: those of the engine first. */
export const USERSPACE_FEATURES = [
  'relay thread',
  'loopback addresses',
  'IPv6',
] as const satisfies readonly FeatureName[];
