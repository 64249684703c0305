// SPDX-License-Identifier: Apache-2.0
// The shape of KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1): every field of its types.go,
// and no others. Shape and type only; validate.ts checks ranges.
import { z } from 'zod';
import { formatDuration, parseDuration } from '../duration.ts';

export const KUBE_PROXY_API = 'kubeproxy.config.k8s.io/v1alpha1';
export const KUBE_PROXY_KIND = 'KubeProxyConfiguration';

export const MODES = ['', 'iptables', 'ipvs', 'nftables'] as const;
export const DETECT_LOCAL_MODES = [
  'ClusterCIDR',
  'NodeCIDR',
  'BridgeInterface',
  'InterfaceNamePrefix',
] as const;

/** A Go duration, in the form Go would print it. */
export const duration = z.string().transform((text, context) => {
  const ms = parseDuration(text);
  if (ms !== undefined) return formatDuration(ms);
  context.issues.push({
    code: 'custom',
    input: text,
    message: 'must be a duration such as 30s, 1m30s or 15m0s',
  });
  return z.NEVER;
});

// In Kubernetes' files null means unset.
const text = z.string().nullish();
const flag = z.boolean().nullish();
const int = z.int().nullish();
const optionalDuration = duration.nullish();
const texts = z.array(z.string()).nullish();

const clientConnection = z.strictObject({
  kubeconfig: text,
  acceptContentTypes: text,
  contentType: text,
  qps: z.number().nullish(),
  burst: int,
});

const bufferSize = z
  .union([z.string(), z.int()], { error: 'must be a size such as "64Ki", or an integer' })
  .nullish();
const logOptions = z.strictObject({ splitStream: flag, infoBufferSize: bufferSize }).nullish();

const logging = z.strictObject({
  format: text,
  /** A duration, or integer nanoseconds as older files have it. */
  flushFrequency: z
    .union([z.int(), duration], { error: 'must be a duration such as 5s, or integer nanoseconds' })
    .nullish(),
  verbosity: int,
  vmodule: z.array(z.strictObject({ filePattern: z.string(), verbosity: z.int() })).nullish(),
  options: z.strictObject({ text: logOptions, json: logOptions }).nullish(),
});

const iptables = z.strictObject({
  masqueradeBit: int,
  masqueradeAll: flag,
  localhostNodePorts: flag,
  snatNodeInternalIP: flag,
  syncPeriod: optionalDuration,
  minSyncPeriod: optionalDuration,
});

const nftables = z.strictObject({
  masqueradeBit: int,
  masqueradeAll: flag,
  syncPeriod: optionalDuration,
  minSyncPeriod: optionalDuration,
});

const ipvs = z.strictObject({
  syncPeriod: optionalDuration,
  minSyncPeriod: optionalDuration,
  scheduler: text,
  excludeCIDRs: texts,
  strictARP: flag,
  tcpTimeout: optionalDuration,
  tcpFinTimeout: optionalDuration,
  udpTimeout: optionalDuration,
});

const conntrack = z.strictObject({
  maxPerCore: int,
  min: int,
  tcpEstablishedTimeout: optionalDuration,
  tcpCloseWaitTimeout: optionalDuration,
  tcpBeLiberal: flag,
  udpTimeout: optionalDuration,
  udpStreamTimeout: optionalDuration,
});

const winkernel = z.strictObject({
  networkName: text,
  sourceVip: text,
  enableDSR: flag,
  rootHnsEndpointName: text,
  forwardHealthCheckVip: flag,
});

export const kubeProxySchema = z.strictObject({
  apiVersion: z.literal(KUBE_PROXY_API),
  kind: z.literal(KUBE_PROXY_KIND),
  featureGates: z.record(z.string(), z.boolean()).nullish(),
  clientConnection: clientConnection.nullish(),
  logging: logging.nullish(),
  hostnameOverride: text,
  bindAddress: text,
  healthzBindAddress: text,
  metricsBindAddress: text,
  bindAddressHardFail: flag,
  enableProfiling: flag,
  showHiddenMetricsForVersion: text,
  mode: z.enum(MODES).nullish(),
  iptables: iptables.nullish(),
  ipvs: ipvs.nullish(),
  nftables: nftables.nullish(),
  winkernel: winkernel.nullish(),
  detectLocalMode: z.enum(['', ...DETECT_LOCAL_MODES]).nullish(),
  detectLocal: z.strictObject({ bridgeInterface: text, interfaceNamePrefix: text }).nullish(),
  clusterCIDR: text,
  nodePortAddresses: texts,
  oomScoreAdj: int,
  conntrack: conntrack.nullish(),
  configSyncPeriod: optionalDuration,
  portRange: text,
  /** Removed from types.go, but still in files that old versions of kubeadm wrote. */
  udpIdleTimeout: optionalDuration,
  windowsRunAsService: flag,
});

export type KubeProxyInput = z.infer<typeof kubeProxySchema>;
