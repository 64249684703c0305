// SPDX-License-Identifier: Apache-2.0
// Fields that are not set get kube-proxy's defaults, so that the result is the whole document kube-proxy would
// run with. Source: pkg/proxy/apis/config/v1alpha1/defaults.go; there, too, a zero duration means "not
// set" where zero makes no sense.
import { defaultHosts, HEALTHZ_PORT, METRICS_PORT, withPort } from './addresses.ts';
import { KUBE_PROXY_API, KUBE_PROXY_KIND, type KubeProxyInput } from './file/schema.ts';

/** A whole KubeProxyConfiguration, durations in Go's form. Keys newer than kube-proxy 1.29 only if they were set. */
export type KubeProxyDocument = ReturnType<typeof withDefaults>;

type Section<T extends keyof KubeProxyInput> = NonNullable<KubeProxyInput[T]>;

const orDefault = (span: string | null | undefined, otherwise: string): string =>
  span == null || span === '0s' ? otherwise : span;

/** A file without the document, or no file at all, is `{}`. */
export function withDefaults(input: Partial<KubeProxyInput>) {
  const bindAddress = input.bindAddress || '0.0.0.0';
  const hosts = defaultHosts(bindAddress);
  return {
    apiVersion: KUBE_PROXY_API,
    kind: KUBE_PROXY_KIND,
    bindAddress,
    bindAddressHardFail: input.bindAddressHardFail ?? false,
    clientConnection: clientConnection(input.clientConnection ?? {}),
    clusterCIDR: input.clusterCIDR ?? '',
    configSyncPeriod: orDefault(input.configSyncPeriod, '15m0s'),
    conntrack: conntrack(input.conntrack ?? {}),
    detectLocal: {
      bridgeInterface: input.detectLocal?.bridgeInterface ?? '',
      interfaceNamePrefix: input.detectLocal?.interfaceNamePrefix ?? '',
    },
    detectLocalMode: input.detectLocalMode || ('ClusterCIDR' as const),
    enableProfiling: input.enableProfiling ?? false,
    featureGates: input.featureGates ?? {},
    healthzBindAddress: withPort(input.healthzBindAddress || hosts.healthz, HEALTHZ_PORT),
    hostnameOverride: input.hostnameOverride ?? '',
    iptables: iptables(input.iptables ?? {}),
    ipvs: ipvs(input.ipvs ?? {}),
    logging: logging(input.logging ?? {}),
    metricsBindAddress: withPort(input.metricsBindAddress || hosts.metrics, METRICS_PORT),
    mode: input.mode ?? '',
    nftables: {
      masqueradeAll: input.nftables?.masqueradeAll ?? false,
      masqueradeBit: input.nftables?.masqueradeBit ?? 14,
      minSyncPeriod: orDefault(input.nftables?.minSyncPeriod, '1s'),
      syncPeriod: orDefault(input.nftables?.syncPeriod, '30s'),
    },
    nodePortAddresses: input.nodePortAddresses ?? [],
    oomScoreAdj: input.oomScoreAdj ?? -999,
    portRange: input.portRange ?? '',
    showHiddenMetricsForVersion: input.showHiddenMetricsForVersion ?? '',
  };
}

function clientConnection(input: Section<'clientConnection'>) {
  return {
    acceptContentTypes: input.acceptContentTypes ?? '',
    burst: input.burst || 10,
    contentType: input.contentType || 'application/vnd.kubernetes.protobuf',
    kubeconfig: input.kubeconfig ?? '',
    qps: input.qps || 5,
  };
}

function conntrack(input: Section<'conntrack'>) {
  return {
    maxPerCore: input.maxPerCore ?? 32_768,
    min: input.min ?? 131_072,
    tcpBeLiberal: input.tcpBeLiberal ?? false,
    // Zero is a value here: it keeps the kernel's setting.
    tcpCloseWaitTimeout: input.tcpCloseWaitTimeout ?? '1h0m0s',
    tcpEstablishedTimeout: input.tcpEstablishedTimeout ?? '24h0m0s',
    udpStreamTimeout: input.udpStreamTimeout ?? '0s',
    udpTimeout: input.udpTimeout ?? '0s',
  };
}

function iptables(input: Section<'iptables'>) {
  return {
    localhostNodePorts: input.localhostNodePorts ?? true,
    masqueradeAll: input.masqueradeAll ?? false,
    masqueradeBit: input.masqueradeBit ?? 14,
    minSyncPeriod: orDefault(input.minSyncPeriod, '1s'),
    ...(input.snatNodeInternalIP != null && { snatNodeInternalIP: input.snatNodeInternalIP }),
    syncPeriod: orDefault(input.syncPeriod, '30s'),
  };
}

function ipvs(input: Section<'ipvs'>) {
  return {
    excludeCIDRs: input.excludeCIDRs ?? [],
    minSyncPeriod: input.minSyncPeriod ?? '0s',
    scheduler: input.scheduler ?? '',
    strictARP: input.strictARP ?? false,
    syncPeriod: orDefault(input.syncPeriod, '30s'),
    tcpFinTimeout: input.tcpFinTimeout ?? '0s',
    tcpTimeout: input.tcpTimeout ?? '0s',
    udpTimeout: input.udpTimeout ?? '0s',
  };
}

/** Old files have integer nanoseconds; kube-proxy reads both, and so does fairlead. */
function logging(input: Section<'logging'>) {
  const { flushFrequency } = input;
  return {
    flushFrequency: flushFrequency == null || flushFrequency === 0 ? '5s' : flushFrequency,
    format: input.format || 'text',
    verbosity: input.verbosity ?? 0,
    ...(input.vmodule != null && { vmodule: input.vmodule }),
    ...(input.options != null && { options: input.options }),
  };
}
