// SPDX-License-Identifier: Apache-2.0
// kube-proxy's flags that say what a Service means and what the kernel is to do.
import { type FlagRow, proxy } from './row.ts';

export const SERVICE_FLAGS: readonly FlagRow[] = [
  proxy(
    'proxy-mode',
    'text',
    'mode',
    'iptables asks for that engine; ipvs and nftables are taken as auto',
  ),
  proxy(
    'iptables-masquerade-bit',
    'whole',
    'iptables.masqueradeBit',
    'mark of packets to masquerade (default 14)',
  ),
  proxy(
    'masquerade-all',
    'bool',
    'iptables.masqueradeAll nftables.masqueradeAll',
    "replace the client's address on every connection to a ClusterIP",
  ),
  proxy(
    'iptables-localhost-nodeports',
    'bool',
    'iptables.localhostNodePorts',
    'NodePorts on 127.0.0.1 (default true)',
  ),
  proxy(
    'iptables-sync-period',
    'duration',
    'iptables.syncPeriod nftables.syncPeriod',
    'how old an unprogrammed change may be, halved (default 30s)',
  ),
  proxy(
    'iptables-min-sync-period',
    'duration',
    'iptables.minSyncPeriod nftables.minSyncPeriod',
    'no effect: changes are programmed as they come',
  ),
  proxy('ipvs-sync-period', 'duration', 'ipvs.syncPeriod', 'the same, with proxy-mode ipvs'),
  proxy('ipvs-min-sync-period', 'duration', 'ipvs.minSyncPeriod', 'no effect'),
  proxy('ipvs-scheduler', 'text', 'ipvs.scheduler', 'no effect: backends are chosen at random'),
  proxy('ipvs-exclude-cidrs', 'list', 'ipvs.excludeCIDRs', 'no effect'),
  proxy('ipvs-strict-arp', 'bool', 'ipvs.strictARP', 'no effect'),
  proxy('ipvs-tcp-timeout', 'duration', 'ipvs.tcpTimeout', 'no effect'),
  proxy('ipvs-tcpfin-timeout', 'duration', 'ipvs.tcpFinTimeout', 'no effect'),
  proxy('ipvs-udp-timeout', 'duration', 'ipvs.udpTimeout', 'no effect'),
  proxy(
    'detect-local-mode',
    'text',
    'detectLocalMode',
    'ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix',
  ),
  proxy(
    'pod-bridge-interface',
    'text',
    'detectLocal.bridgeInterface',
    'for detect-local-mode BridgeInterface',
  ),
  proxy(
    'pod-interface-name-prefix',
    'text',
    'detectLocal.interfaceNamePrefix',
    'for detect-local-mode InterfaceNamePrefix',
  ),
  proxy(
    'cluster-cidr',
    'text',
    'clusterCIDR',
    'pod addresses of the cluster, at most one prefix a family',
  ),
  proxy(
    'nodeport-addresses',
    'list',
    'nodePortAddresses',
    'CIDRs or primary, localhost, all (default: all local addresses)',
  ),
  proxy(
    'conntrack-max-per-core',
    'whole',
    'conntrack.maxPerCore',
    'connections tracked for each CPU (default 32768; 0: left alone)',
  ),
  proxy('conntrack-min', 'whole', 'conntrack.min', 'connections tracked at least (default 131072)'),
  proxy(
    'conntrack-tcp-timeout-established',
    'duration',
    'conntrack.tcpEstablishedTimeout',
    'default 24h; 0: left alone',
  ),
  proxy(
    'conntrack-tcp-timeout-close-wait',
    'duration',
    'conntrack.tcpCloseWaitTimeout',
    'default 1h; 0: left alone',
  ),
  proxy(
    'conntrack-tcp-be-liberal',
    'bool',
    'conntrack.tcpBeLiberal',
    'track TCP outside its window too',
  ),
  proxy('conntrack-udp-timeout', 'duration', 'conntrack.udpTimeout', '0: left alone'),
  proxy('conntrack-udp-timeout-stream', 'duration', 'conntrack.udpStreamTimeout', '0: left alone'),
];
