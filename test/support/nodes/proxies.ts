// SPDX-License-Identifier: Apache-2.0
// The proxies that every kind of node is played on: fairlead by eBPF and by rules, and the real kube-proxy as the judge.
import { isMissing, oracle } from '../../integration/oracle/oracle.ts';
import { fairleadRules, fairleadWith } from '../fixture/proxies/fairlead.ts';
import type { Mode, StartProxy } from '../fixture/proxies/proxy.ts';

export const PROXIES = ['eBPF', 'rules', 'kube-proxy iptables', 'kube-proxy nftables'] as const;
/** By eBPF, with pods whose sockets no hook sees: their packets are translated. */
export const PACKETS = 'eBPF packets';
export type ProxyName = (typeof PROXIES)[number] | typeof PACKETS;

export const isKubeProxy = (proxy: ProxyName): boolean => proxy.startsWith('kube-proxy');

/** What kube-proxy answers changes with its version alone: `npm test` leaves it to `npm run test:nightly`. */
const asksKubeProxy = process.env['FAIRLEAD_KUBE_PROXY'] !== '0';

/** kube-proxy is built by Go: without it, its part of each file is skipped, with the reason on stderr. */
export const isAbsent = (proxy: ProxyName): boolean =>
  isKubeProxy(proxy) && (isMissing || !asksKubeProxy);

export const MODES: Readonly<Record<ProxyName, Mode>> = {
  eBPF: 'fairlead',
  [PACKETS]: 'fairlead-packets',
  rules: 'fairlead-iptables-nft',
  'kube-proxy iptables': 'iptables',
  'kube-proxy nftables': 'nftables',
};

/**
 * @param flags of fairlead
 * @param fields of the configuration of kube-proxy
 */
export function startOf(
  proxy: ProxyName,
  flags: readonly string[],
  fields: object = {},
): StartProxy {
  if (proxy === 'eBPF' || proxy === PACKETS) return fairleadWith(flags);
  if (proxy === 'rules') {
    return fairleadRules('fairlead-iptables-nft', { engine: 'iptables', within: [], flags });
  }
  return oracle(proxy === 'kube-proxy iptables' ? 'iptables' : 'nftables', fields);
}
