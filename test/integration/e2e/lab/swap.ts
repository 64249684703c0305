// SPDX-License-Identifier: Apache-2.0
// fairlead in kubeadm's own DaemonSet, by its image, and the way back: as deploy/kubeadm-patch.yaml and docs/install.md say.
import { join } from 'node:path';
import { packageRoot } from '../../../../src/sys/package.ts';
import type { RealCluster } from '../nodes/nodes.ts';
import { rollOut } from '../nodes/use.ts';
import { type FairleadOptions, requestFairlead } from './proxies.ts';

const SYSTEM = ['-n', 'kube-system'];
const PATCH = join(packageRoot(), 'deploy', 'kubeadm-patch.yaml');

export async function swapToFairlead(cluster: RealCluster): Promise<void> {
  const change = ['patch', 'daemonset', 'kube-proxy', '--patch-file', PATCH];
  await cluster.plane.kubectl([...SYSTEM, ...change]);
  await rollOut(cluster, 'daemonset/kube-proxy', 'kube-system');
}

/** kube-proxy serves first; then what fairlead has left is removed, without an end of what it still translates. */
export async function swapBack(cluster: RealCluster): Promise<void> {
  const { plane } = cluster;
  await plane.kubectl([...SYSTEM, 'rollout', 'undo', 'daemonset/kube-proxy']);
  await rollOut(cluster, 'daemonset/kube-proxy', 'kube-system');
  await removeFairlead(cluster);
}

/** Applies deploy/kustomize/remove; its Pods are ready when no connection is left that fairlead translates. */
export async function removeFairlead(
  cluster: RealCluster,
  options: FairleadOptions = {},
): Promise<void> {
  await requestFairlead(cluster, { ...options, overlay: 'remove' });
}
