// SPDX-License-Identifier: Apache-2.0
// From kube-proxy to fairlead and back, as docs/install.md says: in kubeadm's own DaemonSet by its image, and by a DaemonSet of fairlead's
// while kube-proxy's has no node.
import { join } from 'node:path';
import { packageRoot } from '../../../../src/sys/package.ts';
import type { RealCluster } from '../nodes/nodes.ts';
import { rollOut } from '../nodes/use.ts';
import { applyFairlead, requestFairlead } from './proxies.ts';

const SYSTEM = ['-n', 'kube-system'];
const KUBE_PROXY = [...SYSTEM, 'patch', 'daemonset', 'kube-proxy'];
const PATCH = join(packageRoot(), 'deploy', 'kubeadm-patch.yaml');
const NO_NODE = { 'no-such-node': 'true' };

export async function swapToFairlead(cluster: RealCluster): Promise<void> {
  await cluster.plane.kubectl([...KUBE_PROXY, '--patch-file', PATCH]);
  await rollOut(cluster, 'daemonset/kube-proxy', 'kube-system');
}

/** kube-proxy's rules stay, and serve until the agents do. */
export async function replaceKubeProxy(cluster: RealCluster): Promise<void> {
  const spec = { template: { spec: { nodeSelector: NO_NODE } } };
  await cluster.plane.kubectl([...KUBE_PROXY, '-p', JSON.stringify({ spec })]);
  await applyFairlead(cluster);
}

/**
 * After either: kube-proxy is started first; then what fairlead has left is removed, on each node once kube-proxy has written its rules there,
 * without an end of what it still translates.
 * The Pods of deploy/kustomize/remove are ready when nothing is left.
 */
export async function goBack(cluster: RealCluster): Promise<void> {
  await cluster.plane.kubectl([...SYSTEM, 'rollout', 'undo', 'daemonset/kube-proxy']);
  await rollOut(cluster, 'daemonset/kube-proxy', 'kube-system');
  await requestFairlead(cluster, { overlay: 'remove' });
}
