// SPDX-License-Identifier: Apache-2.0
// What users have and do in a cluster: a StatefulSet, an ingress, replaced and drained pods.
import { ipBatch } from '../../../../src/sys/netns.ts';
import { until } from '../../../support/until.ts';
import { DNS_ADDRESS, nodeAddress } from '../nodes/settings.ts';
import { apply, rollOut } from '../nodes/use.ts';
import type { Load } from './load.ts';
import { deployment, podService, SERVER_PORT, statefulSet } from './pods.ts';
import type { Stage } from './stage.ts';

const BALANCER = '203.0.113.10';
const PORTS = [{ name: 'http', port: 80, targetPort: SERVER_PORT }];

export async function restart(stage: Stage, what: string, namespace = 'default'): Promise<void> {
  await stage.plane.kubectl(['-n', namespace, 'rollout', 'restart', what]);
  await rollOut(stage, what, namespace);
}

/** Each pod has a name in DNS, and no Service is between it and its clients. */
export async function addDatabase(stage: Stage): Promise<Load> {
  const headless = podService('db', { clusterIP: 'None', ports: PORTS });
  await apply(stage, headless, statefulSet('db', 3));
  await rollOut(stage, 'statefulset/db');
  const streams = [0, 1, 2].map((index) => ({
    name: `db-${index}`,
    kind: 'http' as const,
    target: `http://db-${index}.db.default.svc.cluster.local:${SERVER_PORT}/`,
    perSecond: 8,
  }));
  return { c1: streams, c2: streams };
}

/** Clients outside → load balancer address on each node → ingress → Service web. */
export async function addIngress(stage: Stage): Promise<Load> {
  const args = ['proxy', `:${SERVER_PORT}`, 'http://web.default.svc.cluster.local'];
  const front = podService('ingress', { type: 'LoadBalancer', ports: PORTS });
  await apply(stage, deployment('ingress', 2, args), front);
  await rollOut(stage, 'deployment/ingress');
  const status = { loadBalancer: { ingress: [{ ip: BALANCER }] } };
  const patch = ['patch', 'service', 'ingress', '--subresource=status', '-p'];
  await stage.plane.kubectl([...patch, JSON.stringify({ status })]);
  await ipBatch([`route add ${BALANCER} via ${nodeAddress(1)}`], stage.outside);
  const stream = {
    name: 'ingress',
    kind: 'http',
    target: `http://${BALANCER}/`,
    perSecond: 20,
  } as const;
  return { outside: [stream], c1: [stream] };
}

const questions = (kind: 'dns' | 'held-dns', perSecond: number): Load => {
  const asks = 'steady.default.svc.cluster.local';
  const stream = { name: kind, kind, target: `${DNS_ADDRESS}:53`, asks, perSecond };
  return { c1: [stream], c2: [stream] };
};

export const DNS_LOAD = questions('dns', 20);
/** While an endpoint ends, its kernel refuses what comes; a program that asks seldom misses that. */
export const HELD_DNS_OFTEN = questions('held-dns', 20);
export const HELD_DNS_SELDOM = questions('held-dns', 0.3);

export async function restartDns(stage: Stage, times: number): Promise<void> {
  for (let time = 0; time < times; time += 1) {
    await restart(stage, 'deployment/coredns', 'kube-system');
  }
}

/** The old ones end seconds after the new ones are rolled out. */
export async function untilOldDnsIsGone({ plane }: Stage): Promise<void> {
  const pods = ['-n', 'kube-system', 'get', 'pods', '-l', 'k8s-app=kube-dns', '-o', 'name'];
  await until(async () => (await plane.kubectl(pods)).trim().split('\n').length === 2, {
    what: 'the replaced Pods of CoreDNS are gone',
    timeoutMs: 60_000,
  });
}

/** Connections end with their pods. */
export const withoutHeld = (load: Load): Load =>
  Object.fromEntries(
    Object.entries(load).map(([client, streams]) => [
      client,
      streams.filter(({ kind }) => kind !== 'held'),
    ]),
  );

/** All of its pods but those of DaemonSets and the clients. */
export async function drain(stage: Stage, nodeName: string): Promise<void> {
  const others = '--pod-selector=app notin (c1,c2,host)';
  const args = ['--ignore-daemonsets', '--timeout=50s', others];
  try {
    await stage.plane.kubectl(['drain', nodeName, ...args]);
    for (const name of ['web', 'steady']) await rollOut(stage, `deployment/${name}`);
    await rollOut(stage, 'deployment/coredns', 'kube-system');
  } finally {
    await stage.plane.kubectl(['uncordon', nodeName]);
  }
}
