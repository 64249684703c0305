// SPDX-License-Identifier: Apache-2.0
// Files and calls shared by the tests of the configuration.
import type { FlagValues } from '../../../src/config/flags.ts';
import { resolveConfig } from '../../../src/config/resolve.ts';
import { type Config, remarkText } from '../../../src/config/types.ts';
import { FairleadError } from '../../../src/errors.ts';

export const HEAD = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n';
export const OWN_HEAD = 'apiVersion: fairlead.io/v1alpha1\nkind: FairleadConfiguration\n';

/** What kubeadm writes into the ConfigMap of every cluster: all keys, nearly all of them zero. */
export const KUBEADM = `${HEAD}bindAddress: 0.0.0.0
bindAddressHardFail: false
clientConnection:
  acceptContentTypes: ""
  burst: 0
  contentType: ""
  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
  qps: 0
clusterCIDR: 10.244.0.0/16,fd00:10:244::/56
configSyncPeriod: 0s
conntrack:
  maxPerCore: null
  min: null
  tcpBeLiberal: false
  tcpCloseWaitTimeout: null
  tcpEstablishedTimeout: null
  udpStreamTimeout: 0s
  udpTimeout: 0s
detectLocal:
  bridgeInterface: ""
  interfaceNamePrefix: ""
detectLocalMode: ""
enableProfiling: false
healthzBindAddress: ""
hostnameOverride: ""
iptables:
  localhostNodePorts: null
  masqueradeAll: false
  masqueradeBit: null
  minSyncPeriod: 0s
  syncPeriod: 0s
ipvs:
  excludeCIDRs: null
  minSyncPeriod: 0s
  scheduler: ""
  strictARP: false
  syncPeriod: 0s
  tcpFinTimeout: 0s
  tcpTimeout: 0s
  udpTimeout: 0s
logging:
  flushFrequency: 0
  options:
    json:
      infoBufferSize: "0"
    text:
      infoBufferSize: "0"
  verbosity: 0
metricsBindAddress: ""
mode: ""
nftables:
  masqueradeAll: false
  masqueradeBit: null
  minSyncPeriod: 0s
  syncPeriod: 0s
nodePortAddresses: null
oomScoreAdj: null
portRange: ""
showHiddenMetricsForVersion: ""
winkernel:
  enableDSR: false
  forwardHealthCheckVip: false
  networkName: ""
  rootHnsEndpointName: ""
  sourceVip: ""
`;

export const fromFile = (text: string, flags: FlagValues = {}): Config =>
  resolveConfig({ file: { path: 'c.yaml', text }, flags, hostname: 'node-a' });

export const fromFlags = (flags: FlagValues): Config =>
  resolveConfig({ flags, hostname: 'node-a' });

/** The problems a call ends with, one a line; also proves the exit code of a usage error. */
export function problemsOf(call: () => unknown): readonly string[] {
  try {
    call();
  } catch (error) {
    if (!(error instanceof FairleadError) || error.exitCode !== 2) throw error;
    return error.message.split('\n');
  }
  return [];
}

export const notesOf = ({ notes }: Config): readonly string[] => notes.map(remarkText);
