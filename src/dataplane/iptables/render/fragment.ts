// SPDX-License-Identifier: Apache-2.0
// What one Service has in the rules of one family: chains of its own, and rules in chains that all Services share.
import type { Chain, Rule } from '../rules/types.ts';

export interface Fragment {
  /** KUBE-SVC-, -SVL-, -EXT-, -FW- and -SEP- in nat. */
  readonly chains: readonly Chain[];
  /** KUBE-SERVICES in nat: by address to its chains. */
  readonly services: readonly Rule[];
  /** KUBE-NODEPORTS in nat: by port to its chains. */
  readonly nodePorts: readonly Rule[];
  /** KUBE-SERVICES in filter: ClusterIPs without endpoints. */
  readonly refusals: readonly Rule[];
  /**
   * KUBE-EXTERNAL-SERVICES in filter: other frontends without endpoints. The rules of NodePorts match every address of
   * the node.
   */
  readonly externalRefusals: readonly Rule[];
  /** KUBE-PROXY-FIREWALL in filter: what source ranges do not accept. */
  readonly firewall: readonly Rule[];
  /** KUBE-NODEPORTS in filter: accepts health checks. */
  readonly healthChecks: readonly Rule[];
  /** KUBE-CLUSTER-IPS in filter: refuses the ports that its ClusterIPs do not have. */
  readonly clusterIps: readonly Rule[];
  /** The same for ClusterIPs in no known ServiceCIDR. */
  readonly strayClusterIps: readonly Rule[];
}

export const NO_FRAGMENT: Fragment = {
  chains: [],
  services: [],
  nodePorts: [],
  refusals: [],
  externalRefusals: [],
  firewall: [],
  healthChecks: [],
  clusterIps: [],
  strayClusterIps: [],
};

const LISTS = Object.keys(NO_FRAGMENT) as readonly (keyof Fragment)[];

/** In their order. */
export function joinFragments(fragments: readonly Fragment[]): Fragment {
  if (fragments.length === 1) return fragments[0] ?? NO_FRAGMENT;
  return Object.fromEntries(
    LISTS.map((list) => [list, fragments.flatMap((fragment) => [...fragment[list]])]),
  ) as unknown as Fragment;
}
