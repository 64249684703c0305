// SPDX-License-Identifier: Apache-2.0
// What runs on the node of each column.
import { copyFileSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { PlanSettings } from '../../../src/plan/types.ts';
import { packageRoot } from '../../../src/sys/package.ts';
import {
  fairlead,
  fairleadNftables,
  fairleadWith,
  prepareFairlead,
} from '../../../test/support/fixture/proxies/fairlead.ts';
import { kubeProxy } from '../../../test/support/fixture/proxies/kube-proxy.ts';
import type { NodeProxy, StartProxy } from '../../../test/support/fixture/proxies/proxy.ts';
import { CLUSTER_CIDR } from '../../../tools/lab/columns/network.ts';
import type { ColumnSite } from '../../../tools/lab/columns/site.ts';
import type { ColumnName } from '../report/figures.ts';
import { NODE } from './objects.ts';

const SETTINGS: PlanSettings = {
  nodeName: NODE,
  detectLocalMode: 'ClusterCIDR',
  clusterCidrs: [CLUSTER_CIDR],
  masqueradeAll: false,
  nodePortAddresses: [],
  allowExternalIps: true,
};

export interface Builds {
  readonly kubeProxyPath: string | undefined;
  /** Folder of compiled programs. */
  readonly otherPrograms: string | undefined;
}

/** Undefined: the column has no proxy. */
export async function startProxy(
  site: ColumnSite<ColumnName>,
  kubeconfig: string,
  builds: Builds,
): Promise<NodeProxy | undefined> {
  const start = await starterOf(site, builds);
  return start?.(site, NODE, SETTINGS, kubeconfig);
}

async function starterOf(site: ColumnSite<ColumnName>, { kubeProxyPath, otherPrograms }: Builds) {
  const { name }: { readonly name: ColumnName } = site;
  switch (name) {
    case 'plain':
    case 'feeder':
    case 'router':
      return undefined;
    case 'iptables':
    case 'nftables':
      if (kubeProxyPath === undefined) throw new Error(`no kube-proxy for ${name}`);
      return kubeProxy(kubeProxyPath, name);
    case 'fairlead-nftables':
      await prepareFairlead(site);
      return fairleadNftables;
    default:
      await prepareFairlead(site);
      return fairleadOf(name, otherPrograms);
  }
}

/** As if its uplinks were network cards. */
const XDP_FLAGS = ['--xdp', 'eth0=native,far0=native'];

function fairleadOf(
  name: 'fairlead' | 'empty' | 'other' | 'xdp' | 'other-xdp',
  otherPrograms: string | undefined,
): StartProxy {
  if (name === 'fairlead') return fairlead;
  if (name === 'empty') return fairleadWith([], emptyPrograms());
  if (name === 'xdp') return fairleadWith(XDP_FLAGS);
  return fairleadWith(name === 'other' ? [] : XDP_FLAGS, otherPrograms);
}

/** The folder of a build whose packet programs return at once. */
function emptyPrograms(): string {
  const build = join(packageRoot(), 'build');
  const folder = join(build, 'bench', 'empty');
  mkdirSync(folder, { recursive: true });
  for (const name of readdirSync(join(build, 'bpf'))) {
    copyFileSync(join(build, 'bpf', name), join(folder, name));
  }
  copyFileSync(join(build, 'bpf-bench', 'return.bpf.o'), join(folder, 'packet.bpf.o'));
  return folder;
}
