// SPDX-License-Identifier: Apache-2.0
// What runs on the node of each column.
import type { PlanSettings } from '../../../src/plan/types.ts';
import { fairlead, prepareFairlead } from '../../../test/support/fixture/proxies/fairlead.ts';
import { kubeProxy } from '../../../test/support/fixture/proxies/kube-proxy.ts';
import type { NodeProxy } from '../../../test/support/fixture/proxies/proxy.ts';
import type { ColumnName } from '../report/figures.ts';
import { CLUSTER_CIDR } from './network.ts';
import { NODE } from './objects.ts';
import type { ColumnSite } from './site.ts';

const SETTINGS: PlanSettings = {
  nodeName: NODE,
  detectLocalMode: 'ClusterCIDR',
  clusterCidrs: [CLUSTER_CIDR],
  masqueradeAll: false,
  nodePortAddresses: [],
  allowExternalIps: true,
};

/** Undefined: the column has no proxy. */
export async function startProxy(
  site: ColumnSite,
  kubeconfig: string,
  kubeProxyPath: string | undefined,
): Promise<NodeProxy | undefined> {
  const start = await starterOf(site, kubeProxyPath);
  return start?.(site, NODE, SETTINGS, kubeconfig);
}

async function starterOf(site: ColumnSite, kubeProxyPath: string | undefined) {
  const { name }: { readonly name: ColumnName } = site;
  if (name === 'plain') return undefined;
  if (name === 'fairlead') {
    await prepareFairlead(site);
    return fairlead;
  }
  if (kubeProxyPath === undefined) throw new Error(`no kube-proxy for ${name}`);
  return kubeProxy(kubeProxyPath, name);
}
