// SPDX-License-Identifier: Apache-2.0
// A cluster that Services serve: two nodes, CoreDNS, servers, and clients in pods, on a node and outside.
import { expect } from 'vitest';
import { untilHolds } from '../../../support/until.ts';
import { type RealCluster, startNodes } from '../nodes/nodes.ts';
import { nodeAddress } from '../nodes/settings.ts';
import { apply, rollOut } from '../nodes/use.ts';
import type { ProxyImages } from './archives.ts';
import { DNS } from './dns.ts';
import { type Client, type Load, podClient, startOutside, underLoad } from './load.ts';
import { clientPod, deployment, podService } from './pods.ts';
import { addKubeadm, applyFairlead, type ProxyMode } from './proxies.ts';
import type { Parts } from './suite.ts';

export const WEB = '10.96.1.1';
/** Its pods are not touched, so that connections to them can last. */
export const STEADY = '10.96.1.2';
const WEB_NODE_PORT = 30080;
/** Where load balancers ask whether a node has a pod of `steady`. */
const CHECK_PORT = 31256;
const DNS_SERVER = '10.96.0.10:53';
const DNS_NAME = 'steady.default.svc.cluster.local';

export interface Stage extends RealCluster {
  readonly clients: readonly Client[];
}

export interface StageOptions {
  readonly proxy: 'kube-proxy' | 'fairlead';
  readonly mode?: ProxyMode;
}

export async function openStage(
  { binaries, programs, images }: Parts,
  { proxy, mode = '' }: StageOptions,
): Promise<Stage> {
  const cluster = await startNodes(binaries, programs, ['n1', 'n2']);
  try {
    await importImages(cluster, images);
    await addKubeadm(cluster, { runsKubeProxy: proxy === 'kube-proxy', mode });
    if (proxy === 'fairlead') {
      await applyFairlead(cluster);
      return await addPods(cluster);
    }
    await rollOut(cluster, 'daemonset/kube-proxy', 'kube-system');
    const stage = await addPods(cluster);
    await untilServed(stage);
    return stage;
  } catch (error) {
    await cluster.remove();
    throw error;
  }
}

/** kube-proxy's rules follow a second or more after pods are ready: what comes first would be refused. */
async function untilServed(stage: Stage): Promise<void> {
  await untilHolds(async () => {
    const counts = await underLoad(stage, stage.clients, EVERYTHING, async () => undefined);
    expect(counts.filter(({ failed }) => failed > 0)).toEqual([]);
  }, 90_000);
}

export async function importImages(
  { nodes, programs }: RealCluster,
  images: ProxyImages,
): Promise<void> {
  const archives = [images.fairlead, images.kubeProxy, programs.images.coredns];
  await Promise.all(
    nodes.map(async (node) => {
      for (const archive of archives) await node.importImage(archive);
    }),
  );
}

/** What needs a network and a proxy. */
export async function addPods(cluster: RealCluster): Promise<Stage> {
  await apply(
    cluster,
    ...DNS,
    ...[deployment('web', 4), deployment('steady', 2)],
    podService('web', {
      clusterIP: WEB,
      type: 'NodePort',
      ports: [
        { name: 'http', port: 80, targetPort: 8080, nodePort: WEB_NODE_PORT },
        { name: 'udp', port: 80, targetPort: 8080, protocol: 'UDP', nodePort: WEB_NODE_PORT },
      ],
    }),
    podService('steady', { clusterIP: STEADY }),
    podService('balanced', {
      ...{ type: 'LoadBalancer', selector: { app: 'steady' } },
      ...{ externalTrafficPolicy: 'Local', healthCheckNodePort: CHECK_PORT },
    }),
    ...[clientPod('c1', { nodeName: 'n1' }), clientPod('c2', { nodeName: 'n2' })],
    clientPod('host', { nodeName: 'n1', hostNetwork: true }),
  );
  await rollOut(cluster, 'deployment/web');
  await rollOut(cluster, 'deployment/steady');
  await rollOut(cluster, 'deployment/coredns', 'kube-system');
  const pods = await Promise.all(['c1', 'c2', 'host'].map((name) => podClient(cluster, name)));
  return { ...cluster, clients: [...pods, await startOutside(cluster)] };
}

const fromPod = [
  { name: 'ClusterIP, a connection each', kind: 'http', target: `http://${WEB}/`, perSecond: 15 },
  { name: 'ClusterIP, one connection', kind: 'held', target: `http://${STEADY}:80`, perSecond: 10 },
  { name: 'ClusterIP, UDP', kind: 'udp', target: `${WEB}:80`, perSecond: 10 },
  { name: 'DNS, a socket each', kind: 'dns', target: DNS_SERVER, asks: DNS_NAME, perSecond: 10 },
  { name: 'by name', kind: 'http', target: 'http://steady.default/', perSecond: 10 },
] as const;

const nodePort = (index: number) =>
  ({
    name: `NodePort of n${index}`,
    kind: 'http',
    target: `http://${nodeAddress(index)}:${WEB_NODE_PORT}/`,
    perSecond: 10,
  }) as const;

/** What most clusters do all the time. */
export const EVERYTHING: Load = {
  c1: fromPod,
  c2: fromPod,
  host: [{ name: 'ClusterIP', kind: 'http', target: `http://${WEB}/`, perSecond: 10 }, nodePort(2)],
  outside: [
    ...[nodePort(1), nodePort(2)],
    {
      name: 'NodePort, UDP',
      kind: 'udp',
      target: `${nodeAddress(1)}:${WEB_NODE_PORT}`,
      perSecond: 10,
    },
  ],
};

const checked = (index: number): Load[string] =>
  [10256, CHECK_PORT].map((port) => ({
    name: `health check of n${index}, port ${port}`,
    kind: 'http',
    target: `http://${nodeAddress(index)}:${port}/healthz`,
    perSecond: 20,
  }));

/** And what load balancers ask the nodes: one that does not answer gets no traffic. */
export const WITH_HEALTH_CHECKS: Load = {
  ...EVERYTHING,
  outside: [...(EVERYTHING['outside'] ?? []), ...checked(1), ...checked(2)],
};
