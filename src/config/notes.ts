// SPDX-License-Identifier: Apache-2.0
// Settings that are accepted and do less, or something else, here than in kube-proxy: each gives one
// warning with its reason, only when it was set to something.

import type { KubeProxyInput } from './file/schema.ts';
import { type Locate, valueAt } from './issues.ts';
import type { Path, Remark } from './types.ts';

type Row = readonly [path: Path, reason: string, matters?: (value: unknown) => boolean];

const NO_IPVS = 'ignored: fairlead does not use IPVS';
const AT_ONCE = 'ignored: changes are programmed as they come';
const isZeroSpan = (value: unknown): boolean => value === '0s';

/** A value that is neither absent nor the zero of its type. */
function isSet(value: unknown): boolean {
  if (value === undefined || value === null || value === '' || isZeroSpan(value)) return false;
  if (Array.isArray(value)) return value.length > 0;
  return value !== false && value !== 0;
}

const ROWS: readonly Row[] = [
  [
    ['mode'],
    'taken as auto: there is no such engine here; the kernel decides between bpf and iptables',
    (value) => value === 'ipvs' || value === 'nftables',
  ],
  [['enableProfiling'], 'ignored: there are no pprof pages'],
  [['portRange'], 'ignored: only the userspace mode, removed in Kubernetes 1.26, used it'],
  [['udpIdleTimeout'], 'ignored: only the userspace mode, removed in Kubernetes 1.26, used it'],
  [['showHiddenMetricsForVersion'], 'ignored: no metric is hidden'],
  [['clientConnection', 'contentType'], 'ignored: objects are read as JSON', isNotJson],
  [['clientConnection', 'acceptContentTypes'], 'ignored: objects are read as JSON', isNotJson],
  [['iptables', 'minSyncPeriod'], AT_ONCE, isNotDefaultPause],
  [['nftables', 'minSyncPeriod'], AT_ONCE, isNotDefaultPause],
  [
    ['iptables', 'localhostNodePorts'],
    'closes 127.0.0.1 in the iptables engine alone: for the bpf engine leave 127.0.0.0/8 out of nodePortAddresses',
    (value) => value === false,
  ],
  [
    ['iptables', 'snatNodeInternalIP'],
    'ignored: the source is the address of the device a packet leaves by',
  ],
  [['ipvs', 'scheduler'], 'ignored: backends are chosen at random'],
  [['ipvs', 'excludeCIDRs'], NO_IPVS],
  [['ipvs', 'strictARP'], NO_IPVS],
  [['ipvs', 'tcpTimeout'], NO_IPVS],
  [['ipvs', 'tcpFinTimeout'], NO_IPVS],
  [['ipvs', 'udpTimeout'], NO_IPVS],
  [['logging', 'vmodule'], 'ignored: one level holds for the whole agent'],
];

/** JSON is what is read; protobuf is kube-proxy's default, which nobody chose. */
function isNotJson(value: unknown): boolean {
  const usual = ['application/json', 'application/vnd.kubernetes.protobuf'];
  return isSet(value) && !usual.includes(String(value));
}

function isNotDefaultPause(value: unknown): boolean {
  return isSet(value) && value !== '1s';
}

export function notesOf(input: Partial<KubeProxyInput>, locate: Locate): readonly Remark[] {
  const notes = ROWS.flatMap(([path, reason, matters = isSet]) =>
    matters(valueAt(input, path)) ? [{ ...locate(path), reason }] : [],
  );
  for (const gate of Object.keys(input.featureGates ?? {})) {
    const reason = 'ignored: fairlead has no feature gates';
    notes.push({ ...locate(['featureGates', gate]), reason });
  }
  if (input.mode === 'nftables' && (input.nodePortAddresses ?? []).length === 0) {
    const reason =
      "not set with mode nftables: NodePorts answer on the node's primary addresses alone, as kube-proxy's would";
    notes.push({ ...locate(['nodePortAddresses']), reason });
  }
  return notes;
}
