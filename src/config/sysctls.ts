// SPDX-License-Identifier: Apache-2.0
// Which kernel settings kube-proxy would write at start, from its conntrack section and the number of
// CPUs. Source: setSysctls (pkg/proxy/conntrack/sysctls.go, Kubernetes 1.37).
import { isLoopback, prefixContains } from '../lib/ip.ts';
import type { Config, ConntrackSettings } from './types.ts';

/** One file to set to a value; `raise` keeps a larger value. */
export interface SysctlWrite {
  /** From the root of the file system, without the leading slash. */
  readonly path: string;
  readonly value: number;
  readonly rule: 'set' | 'raise';
}

/** Packets of the node from 127.0.0.0/8 may leave it; belongs to the network namespace. */
export const ROUTE_LOCALNET: SysctlWrite = {
  path: 'proc/sys/net/ipv4/conf/all/route_localnet',
  value: 1,
  rule: 'set',
};

const MAX_CONNECTIONS = 1_048_576;
const NETFILTER = 'proc/sys/net/netfilter';

/** Entries of the conntrack table; undefined = keep the kernel's (maxPerCore 0, and then min is ignored too). */
export function conntrackMax(
  { maxPerCore, min }: Pick<ConntrackSettings, 'maxPerCore' | 'min'>,
  cpuCount: number,
): number | undefined {
  if (maxPerCore <= 0) return undefined;
  const scaled = maxPerCore * cpuCount;
  if (scaled > MAX_CONNECTIONS) return MAX_CONNECTIONS;
  return Math.max(scaled, min);
}

/**
 * In the order to write them: the hash size depends on the table's new size.
 * @param isRouteLocalnet only an engine that DNATs NodePorts of 127.0.0.1 in netfilter needs it
 */
export function sysctlWrites(
  conntrack: ConntrackSettings,
  cpuCount: number,
  isRouteLocalnet: boolean,
): readonly SysctlWrite[] {
  const max = conntrackMax(conntrack, cpuCount);
  const writes: SysctlWrite[] = [];
  const set = (name: string, value: number): void => {
    if (value > 0) writes.push({ path: `${NETFILTER}/${name}`, value, rule: 'set' });
  };
  if (max !== undefined) {
    // Since Kubernetes 1.37 a larger table, which the owner of the node has asked for, is kept.
    writes.push({ path: `${NETFILTER}/nf_conntrack_max`, value: max, rule: 'raise' });
    const path = 'sys/module/nf_conntrack/parameters/hashsize';
    writes.push({ path, value: Math.floor(max / 4), rule: 'raise' });
  }
  set('nf_conntrack_tcp_timeout_established', conntrack.tcpEstablishedSeconds);
  set('nf_conntrack_tcp_timeout_close_wait', conntrack.tcpCloseWaitSeconds);
  if (conntrack.tcpBeLiberal) set('nf_conntrack_tcp_be_liberal', 1);
  set('nf_conntrack_udp_timeout', conntrack.udpSeconds);
  set('nf_conntrack_udp_timeout_stream', conntrack.udpStreamSeconds);
  if (isRouteLocalnet) writes.push(ROUTE_LOCALNET);
  return writes;
}

/** NodePorts on 127.0.0.0/8 are asked for, which netfilter would have to translate. */
export const needsRouteLocalnet = ({ engine, netfilter, plan }: Asked): boolean =>
  engine === 'iptables' &&
  netfilter.localhostNodePorts &&
  (plan.nodePortAddresses.length === 0 || plan.nodePortAddresses.some(hasLocalhost));

type Asked = Pick<Config, 'engine'> & {
  readonly netfilter: Pick<Config['netfilter'], 'localhostNodePorts'>;
  readonly plan: Pick<Config['plan'], 'nodePortAddresses'>;
};

/** A prefix, or a keyword. */
const hasLocalhost = (text: string): boolean =>
  ['localhost', 'all'].includes(text) ||
  (/^[\d.]+\/\d+$/.test(text) &&
    (isLoopback(addressOf(text)) || prefixContains(text, '127.0.0.1')));

const addressOf = (prefix: string): string => prefix.slice(0, prefix.indexOf('/'));

export const OOM_SCORE_PATH = 'proc/self/oom_score_adj';

/** oomScoreAdj of the process that writes it; a failure is only logged. */
export const oomScoreWrite = (oomScoreAdj: number): SysctlWrite => ({
  path: OOM_SCORE_PATH,
  value: oomScoreAdj,
  rule: 'set',
});
