// SPDX-License-Identifier: Apache-2.0
// Settings that fairlead accepts but ignores, or gives another meaning than kube-proxy does: one warning
// each, with the reason, and only if the setting has a value.

import { type Locate, valueAt } from './diagnostics.ts';
import type { OwnInput } from './file/fairlead-schema.ts';
import type { KubeProxyInput } from './file/schema.ts';
import { ROWS as SETTING_ROWS } from './settings/settings.ts';
import type { Diagnostic, Engine, FieldPath } from './types.ts';

type Row = readonly [path: FieldPath, reason: string, applies?: (value: unknown) => boolean];

const NO_IPVS = 'ignored: fairlead does not use IPVS';
const NO_SUCH_ENGINE =
  'remapped to auto: fairlead has no such engine, and auto means bpf where the node can do it';
const AT_ONCE = 'ignored by the bpf engine: every change is programmed at once';
const NO_POLLING = 'ignored: fairlead holds one watch per resource and does not poll';
const isZeroDuration = (value: unknown): boolean => value === '0s';

/** True if the value is neither absent nor its type's zero value. */
function isSet(value: unknown): boolean {
  if (value === undefined || value === null || value === '' || isZeroDuration(value)) return false;
  if (Array.isArray(value)) return value.length > 0;
  return value !== false && value !== 0;
}

const ROWS: readonly Row[] = [
  [
    ['mode'],
    `${NO_SUCH_ENGINE}; kube-proxy ends mode ipvs, by default in Kubernetes 1.40 and for good in 1.43`,
    (value) => value === 'ipvs',
  ],
  [['enableProfiling'], 'ignored: there is no pprof handler'],
  [['portRange'], 'ignored: only the userspace mode, removed in Kubernetes 1.26, used it'],
  [['udpIdleTimeout'], 'ignored: only the userspace mode, removed in Kubernetes 1.26, used it'],
  [['showHiddenMetricsForVersion'], 'ignored: no metric is hidden'],
  [['clientConnection', 'contentType'], 'ignored: objects are requested as JSON', isNotJson],
  [['clientConnection', 'acceptContentTypes'], 'ignored: objects are requested as JSON', isNotJson],
  [['clientConnection', 'qps'], NO_POLLING, isNotDefault(5)],
  [['clientConnection', 'burst'], NO_POLLING, isNotDefault(10)],
  [
    ['configSyncPeriod'],
    'ignored: watches deliver every change; auditInterval says how often the kernel is read back',
    isNotDefault('15m0s'),
  ],
  [['iptables', 'minSyncPeriod'], AT_ONCE, isNotDefault('1s')],
  [['nftables', 'minSyncPeriod'], AT_ONCE, isNotDefault('1s')],
  [
    ['iptables', 'localhostNodePorts'],
    'ignored by the bpf engine: leave 127.0.0.0/8 out of nodePortAddresses instead',
    (value) => value === false,
  ],
  [
    ['iptables', 'snatNodeInternalIP'],
    'ignored: the source address is that of the interface a packet leaves by',
  ],
  [['ipvs', 'scheduler'], 'ignored: see algorithm in FairleadConfiguration'],
  [['ipvs', 'excludeCIDRs'], NO_IPVS],
  [['ipvs', 'strictARP'], NO_IPVS],
  [['ipvs', 'tcpTimeout'], NO_IPVS],
  [['ipvs', 'tcpFinTimeout'], NO_IPVS],
  [['ipvs', 'udpTimeout'], NO_IPVS],
  [['logging', 'vmodule'], 'ignored: one log level applies to the whole agent'],
];

const NO_GATES = 'ignored: fairlead has no feature gates';

/** Gates of kube-proxy 1.37 that concern what fairlead serves; undefined = honoured. */
const OF_GATES: Readonly<Record<string, string | undefined>> = {
  AllowServiceExternalIPs: undefined,
  KubeProxyIPVS: NO_IPVS,
  KubeProxyNFTablesLocalhostNodePorts:
    'ignored: nodePortAddresses alone says whether NodePorts answer at loopback addresses',
  NFTablesNetlink: 'ignored: the nftables engine runs nft',
};

/** protobuf is kube-proxy's default: no choice of the user. */
function isNotJson(value: unknown): boolean {
  const usual = ['application/json', 'application/vnd.kubernetes.protobuf'];
  return isSet(value) && !usual.includes(String(value));
}

/** kubeadm and --write-config-to write the defaults: no choice of the user. */
function isNotDefault(usual: unknown): (value: unknown) => boolean {
  return (value) => isSet(value) && value !== usual;
}

/** Settings that an engine uses; the flag of minSyncPeriod sets both. */
const MIN_SYNC_PERIODS = ['iptables.minSyncPeriod', 'nftables.minSyncPeriod'];
const USED_BY: Readonly<Record<Engine, readonly string[]>> = {
  auto: [],
  bpf: [],
  iptables: [...MIN_SYNC_PERIODS, 'iptables.localhostNodePorts'],
  nftables: [...MIN_SYNC_PERIODS, 'iptables.localhostNodePorts'],
  userspace: [],
};

/** Fields of FairleadConfiguration that only the bpf engine uses. */
const OF_BPF: readonly Row[] = SETTING_ROWS.flatMap(([field, { onIptables }]): readonly Row[] => {
  if (onIptables === undefined) return [];
  const { reason, except = [] } = onIptables;
  return [[[field], reason, (value) => isSet(value) && !except.includes(String(value))]];
});

/** With `auto` they apply wherever eBPF serves. */
export const ownWarningsOf = (
  input: Partial<OwnInput>,
  locate: Locate,
  engine: Engine,
): readonly Diagnostic[] =>
  engine !== 'auto' && engine !== 'bpf'
    ? rowsThatApply(OF_BPF, input, locate).map(({ reason, ...rest }) => ({
        ...rest,
        reason: reason.replace('the iptables engine', `the ${engine} engine`),
      }))
    : [];

const rowsThatApply = (
  rows: readonly Row[],
  input: object,
  locate: Locate,
): readonly Diagnostic[] =>
  rows.flatMap(([path, reason, applies = isSet]) =>
    applies(valueAt(input, path)) ? [{ ...locate(path), reason }] : [],
  );

export function warningsOf(
  input: Partial<KubeProxyInput>,
  locate: Locate,
  engine: Engine,
): readonly Diagnostic[] {
  const rows = ROWS.filter(([path]) => !USED_BY[engine].includes(path.join('.')));
  const warnings = [...rowsThatApply(rows, input, locate)];
  for (const gate of Object.keys(input.featureGates ?? {})) {
    const reason = Object.hasOwn(OF_GATES, gate) ? OF_GATES[gate] : NO_GATES;
    if (reason !== undefined) warnings.push({ ...locate(['featureGates', gate]), reason });
  }
  if (input.mode === 'nftables' && (input.nodePortAddresses ?? []).length === 0) {
    const reason =
      "remapped to primary, as in kube-proxy's nftables mode: NodePorts are served on the node's primary IPs only";
    warnings.push({ ...locate(['nodePortAddresses']), reason });
  }
  return warnings;
}
