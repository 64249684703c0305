// SPDX-License-Identifier: Apache-2.0
// The proxies of the tests: kube-proxy as kubeadm installs it, and fairlead as docs/install.md does.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import type { V1Pod } from '@kubernetes/client-node';
import { dump } from 'js-yaml';
import { packageRoot } from '../../../../src/sys/package.ts';
import { kubeadmObjects } from '../../../support/kubeadm/objects.ts';
import type { RealCluster } from '../nodes/nodes.ts';
import { rollOut } from '../nodes/use.ts';

const NAMESPACE = 'kube-system';

/** '': kube-proxy's default, iptables. ipvs needs a kernel with IPVS. */
export type ProxyMode = '' | 'iptables' | 'nftables';

/**
 * What kubeadm makes for kube-proxy. The limit of connections is the machine's, which a node of a few namespaces must not set:
 * kind has the same setting.
 */
export async function addKubeadm(
  { plane }: RealCluster,
  { runsKubeProxy, mode = '' }: { readonly runsKubeProxy: boolean; readonly mode?: ProxyMode },
): Promise<void> {
  const objects = kubeadmObjects(plane.server.nodeUrl)
    .replace('maxPerCore: null', 'maxPerCore: 0')
    .replace('mode: ""', `mode: "${mode}"`);
  const parts = objects.split('---\n');
  const wanted = parts.filter((part) => runsKubeProxy || !part.includes('kind: DaemonSet'));
  await plane.kubectl(['apply', '--warnings-as-errors', '-f', '-'], wanted.join('---\n'));
}

/** `kubectl apply -k` of a kustomization that uses an overlay, as a user writes it; waits for the agents. */
export async function applyFairlead(
  cluster: RealCluster,
  options: FairleadOptions = {},
): Promise<void> {
  await requestFairlead(cluster, options);
  await rollOut(cluster, 'daemonset/fairlead', NAMESPACE);
}

/** The same without waiting. */
export async function requestFairlead(
  cluster: RealCluster,
  options: FairleadOptions,
): Promise<void> {
  const folder = writeKustomization(cluster, options);
  await cluster.plane.kubectl(['apply', '--warnings-as-errors', '-k', folder]);
}

/** Returns its folder. */
function writeKustomization(
  { plane }: Pick<RealCluster, 'plane'>,
  { overlay = 'kubeadm', components = [], patch, tag = '0.1.0' }: FairleadOptions,
): string {
  const folder = join(plane.directory, `kustomization-${overlay}`);
  mkdirSync(folder, { recursive: true });
  const deploy = relative(folder, join(packageRoot(), 'deploy', 'kustomize'));
  const content = {
    apiVersion: 'kustomize.config.k8s.io/v1beta1',
    kind: 'Kustomization',
    resources: [join(deploy, overlay)],
    images: [{ name: 'fairlead', newTag: tag }],
    components: components.map((name) => join(deploy, 'components', name)),
    ...(patch === undefined ? {} : { patches: [patch] }),
  };
  writeFileSync(join(folder, 'kustomization.yaml'), dump(content));
  return folder;
}

export interface FairleadOptions {
  readonly overlay?: string;
  readonly components?: readonly string[];
  readonly tag?: string;
  /** Of the DaemonSet: a JSON patch. */
  readonly patch?: object;
}

/** Operations of a JSON patch on the agents' container. */
export const patchOf = (...operations: readonly object[]): object => ({
  target: { kind: 'DaemonSet', name: 'fairlead' },
  patch: dump(operations),
});

/** `fairlead ARGUMENTS` in the agent's container on a node. */
export async function onAgent(
  { plane }: RealCluster,
  nodeName: string,
  args: readonly string[],
  daemonSet = 'fairlead',
): Promise<string> {
  const pod = await agentPod(plane, nodeName, `k8s-app=${daemonSet}`);
  return plane.kubectl(['-n', NAMESPACE, 'exec', pod, '-c', daemonSet, '--', 'fairlead', ...args]);
}

/** The newest that is not about to end: during an update a node has two. */
export async function agentPod(
  plane: RealCluster['plane'],
  nodeName: string,
  label = 'k8s-app=fairlead',
): Promise<string> {
  const only = ['-l', label, `--field-selector=spec.nodeName=${nodeName},status.phase=Running`];
  const list = await plane.kubectl(['-n', NAMESPACE, 'get', 'pods', ...only, '-o', 'json']);
  const { items } = JSON.parse(list) as { readonly items: readonly Pick<V1Pod, 'metadata'>[] };
  const [newest] = items
    .filter(({ metadata }) => metadata?.deletionTimestamp === undefined)
    .sort((one, other) => (made(one) < made(other) ? 1 : -1));
  return `pod/${newest?.metadata?.name ?? ''}`;
}

const made = ({ metadata }: Pick<V1Pod, 'metadata'>): string =>
  String(metadata?.creationTimestamp ?? '');
