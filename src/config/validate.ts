// SPDX-License-Identifier: Apache-2.0
// Values that kube-proxy rejects, and settings that do not apply to Linux. Ranges and messages follow
// pkg/proxy/apis/config/validation/validation.go.
import { canonicalAddress, canonicalPrefix, familyOf } from '../lib/ip.ts';
import { shown } from '../lib/json.ts';
import { parseListenAddress } from './addresses.ts';
import type { KubeProxyDocument } from './defaults.ts';
import { type Locate, valueAt } from './diagnostics.ts';
import { parseDuration } from './duration.ts';
import type { KubeProxyInput } from './file/schema.ts';
import type { Diagnostic, FieldPath } from './types.ts';

const NODE_PORT_KEYWORDS = ['primary', 'localhost', 'all'] as const;

type Check = readonly [path: FieldPath, test: (value: unknown) => boolean, reason: string];

const inRange =
  (low: number, high: number) =>
  (value: unknown): boolean =>
    Number(value) >= low && Number(value) <= high;
const ms = (value: unknown): number => parseDuration(String(value)) ?? Number.NaN;
const isPositiveDuration = (value: unknown): boolean => ms(value) > 0;
const isDuration = (value: unknown): boolean => ms(value) >= 0;
const isAddress = (value: unknown): boolean => canonicalAddress(String(value)) !== undefined;
const isHostPort = (value: unknown): boolean => parseListenAddress(String(value)) !== undefined;
const isCount = inRange(0, 2_147_483_647);
const isBit = inRange(0, 31);

const HOST_PORT = 'must be an IP address and a port such as 127.0.0.1:10249';
const NOT_NEGATIVE = 'must not be negative';
const POSITIVE = 'must be longer than 0s';

const CHECKS: readonly Check[] = [
  [['bindAddress'], isAddress, 'must be an IP address'],
  [['healthzBindAddress'], isHostPort, HOST_PORT],
  [['metricsBindAddress'], isHostPort, HOST_PORT],
  [['oomScoreAdj'], inRange(-1000, 1000), 'must be a number from -1000 to 1000'],
  [['configSyncPeriod'], isPositiveDuration, POSITIVE],
  [['clientConnection', 'burst'], isCount, NOT_NEGATIVE],
  [['iptables', 'masqueradeBit'], isBit, 'must be a bit from 0 to 31'],
  [['iptables', 'syncPeriod'], isPositiveDuration, POSITIVE],
  [['iptables', 'minSyncPeriod'], isDuration, NOT_NEGATIVE],
  [['nftables', 'masqueradeBit'], isBit, 'must be a bit from 0 to 31'],
  [['nftables', 'syncPeriod'], isPositiveDuration, POSITIVE],
  [['nftables', 'minSyncPeriod'], isDuration, NOT_NEGATIVE],
  [['ipvs', 'syncPeriod'], isPositiveDuration, POSITIVE],
  [['ipvs', 'minSyncPeriod'], isDuration, NOT_NEGATIVE],
  [['ipvs', 'tcpTimeout'], isDuration, NOT_NEGATIVE],
  [['ipvs', 'tcpFinTimeout'], isDuration, NOT_NEGATIVE],
  [['ipvs', 'udpTimeout'], isDuration, NOT_NEGATIVE],
  [['conntrack', 'maxPerCore'], isCount, NOT_NEGATIVE],
  [['conntrack', 'min'], isCount, NOT_NEGATIVE],
  [['conntrack', 'tcpEstablishedTimeout'], isDuration, NOT_NEGATIVE],
  [['conntrack', 'tcpCloseWaitTimeout'], isDuration, NOT_NEGATIVE],
  [['conntrack', 'udpTimeout'], isDuration, NOT_NEGATIVE],
  [['conntrack', 'udpStreamTimeout'], isDuration, NOT_NEGATIVE],
  [['logging', 'format'], (value) => value === 'text' || value === 'json', 'must be text or json'],
  [['logging', 'verbosity'], isCount, NOT_NEGATIVE],
  [
    ['showHiddenMetricsForVersion'],
    (value) => /^(\d+\.\d+)?$/.test(String(value)),
    'must be a version such as 1.36',
  ],
];

/** Every invalid value, in a fixed order. `input` is what was written, `document` has the defaults. */
export function problemsOf(
  input: Partial<KubeProxyInput>,
  document: KubeProxyDocument,
  locate: Locate,
): readonly Diagnostic[] {
  const problems: Diagnostic[] = [];
  const refuse = (path: FieldPath, reason: string): void => {
    problems.push({ ...locate(path), reason });
  };
  for (const [path, test, reason] of CHECKS) {
    const value = valueAt(document, path);
    if (!test(value)) refuse(path, `${reason}, not ${shown(value)}`);
  }
  checkOrder(document, refuse);
  checkDetector(document, refuse);
  checkClusterCidr(document.clusterCIDR, refuse);
  checkNodePortAddresses(document.nodePortAddresses, refuse);
  for (const [index, cidr] of document.ipvs.excludeCIDRs.entries()) {
    if (canonicalPrefix(cidr) === undefined)
      refuse(['ipvs', 'excludeCIDRs', index], `must be a CIDR, not ${shown(cidr)}`);
  }
  checkWindows(input, refuse);
  return problems;
}

type Refuse = (path: FieldPath, reason: string) => void;

function checkOrder(document: KubeProxyDocument, refuse: Refuse): void {
  for (const section of ['iptables', 'nftables', 'ipvs'] as const) {
    const { minSyncPeriod, syncPeriod } = document[section];
    if (ms(minSyncPeriod) > ms(syncPeriod)) {
      const reason = `must not be longer than ${section}.syncPeriod, which is ${syncPeriod}`;
      refuse([section, 'minSyncPeriod'], reason);
    }
  }
}

function checkDetector({ detectLocalMode, detectLocal }: KubeProxyDocument, refuse: Refuse): void {
  if (detectLocalMode === 'BridgeInterface' && detectLocal.bridgeInterface === '') {
    refuse(['detectLocal', 'bridgeInterface'], 'must be set for detectLocalMode BridgeInterface');
  }
  if (detectLocalMode === 'InterfaceNamePrefix' && detectLocal.interfaceNamePrefix === '') {
    const reason = 'must be set for detectLocalMode InterfaceNamePrefix';
    refuse(['detectLocal', 'interfaceNamePrefix'], reason);
  }
}

function checkClusterCidr(clusterCidr: string, refuse: Refuse): void {
  if (clusterCidr === '') return;
  const prefixes = clusterCidr.split(',').map((text) => canonicalPrefix(text.trim()));
  const families = prefixes.map((prefix) => (prefix === undefined ? '' : familyOf(prefix)));
  if (families.includes('')) {
    refuse(['clusterCIDR'], `must be CIDRs such as 10.1.0.0/16, not ${shown(clusterCidr)}`);
  } else if (new Set(families).size < families.length) {
    refuse(['clusterCIDR'], `must have at most one CIDR per family, not ${shown(clusterCidr)}`);
  }
}

function checkNodePortAddresses(entries: readonly string[], refuse: Refuse): void {
  for (const [index, entry] of entries.entries()) {
    const isKeyword = NODE_PORT_KEYWORDS.some((keyword) => keyword === entry);
    if (isKeyword && entries.indexOf(entry) < index) {
      refuse(['nodePortAddresses', index], `must not have ${entry} twice`);
    }
    if (!isKeyword && canonicalPrefix(entry) === undefined) {
      const words = `must be a CIDR or ${NODE_PORT_KEYWORDS.join(', ')}`;
      refuse(['nodePortAddresses', index], `${words}, not ${shown(entry)}`);
    }
  }
}

/** kubeadm writes these fields with empty values into every file: only other values are rejected. */
function checkWindows({ winkernel, windowsRunAsService }: Partial<KubeProxyInput>, refuse: Refuse) {
  for (const [field, value] of Object.entries(winkernel ?? {})) {
    if (value) refuse(['winkernel', field], 'is for Windows: fairlead runs on Linux only');
  }
  if (windowsRunAsService) {
    refuse(['windowsRunAsService'], 'is for Windows: fairlead runs on Linux only');
  }
}
