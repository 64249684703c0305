// SPDX-License-Identifier: Apache-2.0
// From kube-proxy to fairlead and back, as docs/install.md says: in kubeadm's own DaemonSet by its image, and by a DaemonSet of fairlead's
// while kube-proxy's has no node.
import { join } from 'node:path';
import { packageRoot } from '../../../../src/sys/package.ts';
import { until } from '../../../support/until.ts';
import type { RealNode } from '../nodes/node.ts';
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

const METRICS = [
  process.execPath,
  '--eval',
  "fetch('http://127.0.0.1:10249/metrics').then((got) => got.text()).then(console.log)",
];
const WRITTEN = ['IPv4', 'IPv6'].map(
  (family) =>
    new RegExp(
      String.raw`^kubeproxy_sync_full_proxy_rules_duration_seconds_count\{ip_family="${family}"\} [1-9]`,
      'm',
    ),
);

/** kube-proxy's Pod is ready before: the rules that it has left are as old as its end, and name Pods that are gone. */
async function untilRulesAreWritten(node: RealNode): Promise<void> {
  await until(
    async () => {
      const { stdout } = await node.run(METRICS);
      return WRITTEN.every((family) => family.test(stdout));
    },
    { what: `kube-proxy has written its rules on ${node.name}`, timeoutMs: 60_000 },
  );
}

/**
 * After either: kube-proxy serves first; then what fairlead has left is removed, without an end of what it still translates.
 * The Pods of deploy/kustomize/remove are ready when nothing is left.
 */
export async function goBack(cluster: RealCluster): Promise<void> {
  await cluster.plane.kubectl([...SYSTEM, 'rollout', 'undo', 'daemonset/kube-proxy']);
  await rollOut(cluster, 'daemonset/kube-proxy', 'kube-system');
  for (const node of cluster.nodes) await untilRulesAreWritten(node);
  await requestFairlead(cluster, { overlay: 'remove' });
}
