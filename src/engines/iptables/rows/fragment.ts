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
  /** Prefixes that contain those, each for many of them. */
  readonly strayRanges: readonly string[];
}

const NO_FRAGMENT: Fragment = {
  chains: [],
  services: [],
  nodePorts: [],
  refusals: [],
  externalRefusals: [],
  firewall: [],
  healthChecks: [],
  clusterIps: [],
  strayClusterIps: [],
  strayRanges: [],
};

/** In their order. */
export function joinFragments(fragments: readonly Fragment[]): Fragment {
  if (fragments.length === 1) return fragments[0] ?? NO_FRAGMENT;
  return {
    chains: join(fragments, 'chains'),
    services: join(fragments, 'services'),
    nodePorts: join(fragments, 'nodePorts'),
    refusals: join(fragments, 'refusals'),
    externalRefusals: join(fragments, 'externalRefusals'),
    firewall: join(fragments, 'firewall'),
    healthChecks: join(fragments, 'healthChecks'),
    clusterIps: join(fragments, 'clusterIps'),
    strayClusterIps: join(fragments, 'strayClusterIps'),
    strayRanges: join(fragments, 'strayRanges'),
  };
}

/**
 * Into a list of the right length at once: of 1,000 Services there are 11,000 chains in each sync, and a list that grows leaves
 * three times its size to the garbage collector. Most lists are empty.
 */
function join<Name extends keyof Fragment>(
  fragments: readonly Fragment[],
  name: Name,
): readonly Fragment[Name][number][] {
  let length = 0;
  for (const fragment of fragments) length += fragment[name].length;
  if (length === 0) return NO_FRAGMENT[name];
  const joined = new Array<Fragment[Name][number]>(length);
  let at = 0;
  for (const fragment of fragments) {
    for (const item of fragment[name]) {
      joined[at] = item;
      at += 1;
    }
  }
  return joined;
}
