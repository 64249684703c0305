// SPDX-License-Identifier: Apache-2.0
// Which chains of iptables and jumps to them are kube-proxy's. Names are compared whole: kube-router, the kubelet and plugins
// of the container network have chains that begin with KUBE-, too. KUBE-FIREWALL stays, because the kubelet has rules in it.

import type { TableName } from '../iptables/rules/types.ts';
import { isOurs } from '../iptables/state/diff/ours.ts';
import { type HeldTable, rulesIn } from '../iptables/state/diff/text.ts';

/** Of ipvs mode alone; the others have the names of iptables mode. */
const OF_IPVS: Readonly<Record<TableName, readonly string[]>> = {
  mangle: [],
  filter: [
    ...['KUBE-NODE-PORT', 'KUBE-SOURCE-RANGES-FIREWALL'],
    ...['KUBE-IPVS-FILTER', 'KUBE-IPVS-OUT-FILTER'],
  ],
  nat: ['KUBE-NODE-PORT', 'KUBE-LOAD-BALANCER'],
};

/** Written by fairlead alone: in filter it refuses the other ports of ClusterIPs; that of nat is empty. */
export const OF_FAIRLEAD = 'KUBE-CLUSTER-IPS';

export const isKubeProxys = (table: TableName, chain: string): boolean =>
  chain === OF_FAIRLEAD
    ? table !== 'mangle'
    : isOurs(table, chain) || OF_IPVS[table].includes(chain);

/** kube-proxy's own jumps have one of its comments: `kubernetes service portals`. */
export const isKubeProxysJump = (rule: string): boolean =>
  / --comment "(?:kubernetes |kube-proxy firewall rules")/.test(rule);

/** The chain that a rule jumps or goes to. */
export const targetOf = (rule: string): string | undefined => / -[jg] (\S+)/.exec(` ${rule}`)?.[1];

/** A table that fairlead's iptables engine has written: kube-proxy has no such jump, and removes it if it takes the chains over. */
export const isFairleads = (table: HeldTable): boolean => jumpsTo(table, OF_FAIRLEAD);

const jumpsTo = (table: HeldTable, chain: string): boolean =>
  [...table.values()].some((text) => rulesIn(text).some((rule) => targetOf(rule) === chain));
