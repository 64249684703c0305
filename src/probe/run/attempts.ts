// SPDX-License-Identifier: Apache-2.0
// How each feature is tried. Like dataplanes.ts it knows what each dataplane needs.
import { readFileSync, writeFileSync } from 'node:fs';
import { tryDirectReturn } from '../../engines/bpf/direct-return/kernel/direct-trial.ts';
import * as bpf from '../../engines/bpf/kernel/probe/kernel.ts';
import * as packets from '../../engines/bpf/kernel/probe/packets.ts';
import * as sockets from '../../engines/bpf/kernel/probe/sockets.ts';
import { forwardByXdp } from '../../engines/bpf/xdp/kernel/probe.ts';
import * as rules from '../../engines/iptables/kernel/probe/rules.ts';
import { tryFlowtable, tryTable } from '../../engines/nftables/kernel/probe.ts';
import { relayedTcp } from '../../engines/userspace/kernel/relayed-tcp.ts';
import { reasonOf } from '../../errors.ts';
import { findCgroup2 } from '../../sys/cgroup.ts';
import { connectOnce, withServer } from '../../sys/loopback.ts';
import { addAccount, countTracked } from '../../sys/netfilter.ts';
import { addLoopbackAddress } from '../../sys/netlink/loopback-address.ts';
import { ownStatus, type ProbeSandbox } from '../../sys/probe-sandbox.ts';
import { cgroup2Advice, namespaceName, readInitMounts } from '../cgroup-advice.ts';
import type { FeatureName } from '../features.ts';
import { type CapabilityName, holds } from '../forbidden.ts';

/** Throws, or rejects with, CouldNotTell or else what stands in the way. A text that it returns says more than yes. */
export type Attempt = (sandbox: ProbeSandbox) => unknown;

const capability =
  (name: CapabilityName): Attempt =>
  () => {
    const facts = { status: ownStatus() };
    if (holds(facts, name)) return;
    const isImplied = ['CAP_BPF', 'CAP_PERFMON'].includes(name) && holds(facts, 'CAP_SYS_ADMIN');
    if (isImplied) return 'by CAP_SYS_ADMIN';
    throw new Error(`this process does not have ${name}`);
  };

const hook =
  (program: string): Attempt =>
  (sandbox) =>
    sockets.attachHook(program, sandbox);

const match =
  (words: string): Attempt =>
  (sandbox) =>
    rules.matchPacket(words, sandbox);

const COUNT_PATH = '/proc/sys/net/netfilter/nf_conntrack_count';
const ROUTE_LOCALNET_PATH = '/proc/sys/net/ipv4/conf/lo/route_localnet';

/** Tried in the order of features.ts. */
export const ATTEMPTS: Readonly<Record<FeatureName, Attempt>> = {
  CAP_BPF: capability('CAP_BPF'),
  CAP_NET_ADMIN: capability('CAP_NET_ADMIN'),
  CAP_PERFMON: capability('CAP_PERFMON'),
  CAP_SYS_ADMIN: capability('CAP_SYS_ADMIN'),
  'bpf()': bpf.useBpf,
  BTF: bpf.readKernelTypes,
  'batch operations': bpf.useBatches,
  'mmapable arrays': bpf.mapArray,
  SK_STORAGE: bpf.makeStorage,
  'ring buffer': bpf.makeRing,
  for_each: bpf.callForEach,
  bpf_loop: bpf.runLoop,
  'cgroup v2': enterCgroup,
  'cgroup links': bpf.linkToCgroup,
  'socket programs': sockets.connectToService,
  connect4: hook('fl_connect4'),
  connect6: hook('fl_connect6'),
  sendmsg4: hook('fl_sendmsg4'),
  sendmsg6: hook('fl_sendmsg6'),
  recvmsg4: hook('fl_recvmsg4'),
  recvmsg6: hook('fl_recvmsg6'),
  getpeername4: hook('fl_getpeername4'),
  getpeername6: hook('fl_getpeername6'),
  post_bind4: hook('fl_bind4'),
  post_bind6: hook('fl_bind6'),
  sock_release: hook('fl_sock_release'),
  SO_NETNS_COOKIE: bpf.readNetnsCookie,
  set_retval: bpf.refuseByRetval,
  bpf_sock_destroy: (sandbox) => sockets.destroySocketsBy('bpf_sock_destroy', sandbox),
  'map iterators': sockets.loadMapIterators,
  SOCK_DESTROY: (sandbox) => sockets.destroySocketsBy('SOCK_DESTROY', sandbox),
  tcx: packets.orderTcx,
  clsact: packets.filterByClsact,
  softirqs: packets.keepPacketsApart,
  'packet programs': packets.attachPackets,
  'in-kernel sweep': packets.sweepOnce,
  XDP: forwardByXdp,
  'direct return': tryDirectReturn,
  'nftables IPv4': (sandbox) => tryTable('IPv4', sandbox),
  'nftables IPv6': (sandbox) => tryTable('IPv6', sandbox),
  flowtable: tryFlowtable,
  'iptables-nft': (sandbox) => rules.translateByRule('nft', 'IPv4', sandbox),
  'ip6tables-nft': (sandbox) => rules.translateByRule('nft', 'IPv6', sandbox),
  'iptables-legacy': (sandbox) => rules.translateByRule('legacy', 'IPv4', sandbox),
  'ip6tables-legacy': (sandbox) => rules.translateByRule('legacy', 'IPv6', sandbox),
  xt_comment: match('-m comment --comment "fairlead probe"'),
  xt_conntrack: match('-m conntrack --ctstate NEW,ESTABLISHED'),
  xt_addrtype: match('-m addrtype --dst-type LOCAL'),
  xt_mark: match('-m mark --mark 0x0/0x4000'),
  xt_statistic: match('-m statistic --mode random --probability 1.0'),
  xt_sctp: (sandbox) =>
    rules.restoreRule('filter', '-A OUTPUT -p sctp -m sctp --dport 9 -j ACCEPT', sandbox),
  MASQUERADE: (sandbox) => rules.restoreRule('nat', '-A POSTROUTING -j MASQUERADE', sandbox),
  REJECT: rules.rejectByRule,
  xt_recent: match('-m recent --name fairlead-probe --set --rsource'),
  xt_nfacct: (sandbox) => {
    sandbox.network();
    addAccount('probe');
    return rules.matchPacket('-m nfacct --nfacct-name probe', sandbox);
  },
  'relay thread': startRelay,
  'loopback addresses': (sandbox) => {
    capability('CAP_NET_ADMIN')(sandbox);
    sandbox.network();
    addLoopbackAddress('10.96.0.1');
  },
  IPv6: async (sandbox) => {
    // A connection of its own over ::1 disturbs nobody.
    if (sandbox.hasNetwork) sandbox.network();
    await withServer('::1', (port) => connectOnce('::1', port));
  },
  nf_conntrack: (sandbox) =>
    rules.whileTracked(sandbox, () => {
      const count = Number(readFileSync(COUNT_PATH, 'utf8'));
      if (count === 0) throw new Error('a connection is not tracked');
    }),
  ctnetlink: (sandbox) =>
    rules.whileTracked(sandbox, () => {
      if (countTracked() === 0) throw new Error('a tracked connection is not listed');
    }),
  route_localnet: (sandbox) => {
    sandbox.network();
    writeFileSync(ROUTE_LOCALNET_PATH, '1', { flag: 'r+' });
  },
};

/** Where the addon does not load, that is the answer. */
function startRelay(): void {
  try {
    relayedTcp();
  } catch (error) {
    throw new Error(reasonOf(error));
  }
}

/** Without a hierarchy the answer is no; one that cannot be written to may be used by others. */
function enterCgroup(sandbox: ProbeSandbox): void {
  if (findCgroup2() === undefined) {
    throw new Error(cgroup2Advice(readInitMounts(), namespaceName()));
  }
  sandbox.cgroup();
}
