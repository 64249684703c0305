// SPDX-License-Identifier: Apache-2.0
// What one Service has in the rules of one family: chains of its own, and rules in chains that all Services share.
import { exactList } from '../../../lib/compact.ts';
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

/** In their order. */
export function joinFragments(fragments: readonly Fragment[]): Fragment {
  if (fragments.length === 1) return fragments[0] ?? NO_FRAGMENT;
  const join = <T>(list: (fragment: Fragment) => readonly T[]): readonly T[] => {
    const joined: T[] = [];
    // Not flatMap, which is ten times slower for lists that are mostly empty.
    for (const fragment of fragments) for (const item of list(fragment)) joined.push(item);
    return exactList(joined);
  };
  return {
    chains: join(({ chains }) => chains),
    services: join(({ services }) => services),
    nodePorts: join(({ nodePorts }) => nodePorts),
    refusals: join(({ refusals }) => refusals),
    externalRefusals: join(({ externalRefusals }) => externalRefusals),
    firewall: join(({ firewall }) => firewall),
    healthChecks: join(({ healthChecks }) => healthChecks),
    clusterIps: join(({ clusterIps }) => clusterIps),
    strayClusterIps: join(({ strayClusterIps }) => strayClusterIps),
  };
}
