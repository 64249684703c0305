// SPDX-License-Identifier: Apache-2.0
// Which chains are kube-proxy's, and so ours: we use the same names, and take over what it has left.
import type { TableName } from '../../rules/types.ts';

/** Of one Service port or endpoint: removed when nothing wants them. KUBE-XLB- is what KUBE-EXT- was called until 1.23. */
const OF_SERVICES = /^KUBE-(?:SVC|SVL|EXT|FW|SEP|XLB)-[A-Z2-7]{16}$/;

/** Of the whole table: always there. */
const OF_TABLES: Readonly<Record<TableName, readonly string[]>> = {
  mangle: ['KUBE-PROXY-CANARY'],
  filter: [
    ...['KUBE-PROXY-CANARY', 'KUBE-SERVICES', 'KUBE-EXTERNAL-SERVICES', 'KUBE-NODEPORTS'],
    ...['KUBE-FORWARD', 'KUBE-PROXY-FIREWALL', 'KUBE-CLUSTER-IPS'],
  ],
  nat: [
    ...['KUBE-PROXY-CANARY', 'KUBE-SERVICES', 'KUBE-NODEPORTS', 'KUBE-POSTROUTING'],
    ...['KUBE-MARK-MASQ', 'KUBE-CLUSTER-IPS'],
  ],
};

/** The kubelet has rules in it, too: ours are added, and nothing is removed. */
const SHARED: ReadonlySet<string> = new Set(['KUBE-FIREWALL']);

export const isShared = (chain: string): boolean => SHARED.has(chain);

export const isOfService = (chain: string): boolean => OF_SERVICES.test(chain);

/** What a cleanup removes. */
export const isOurs = (table: TableName, chain: string): boolean =>
  OF_TABLES[table].includes(chain) || (table === 'nat' && isOfService(chain));
