// SPDX-License-Identifier: Apache-2.0
// Which backends a client gets from the real slice controller's conditions and hints and a Service's policies,
// and what a node's health check reports while it is drained and after it is deleted.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Target } from '../../../../tools/lab/client/protocol.ts';
import { until } from '../../../support/until.ts';
import {
  addNode,
  addService,
  podsPath,
  removePod,
  setPod,
  terminatePod,
} from '../objects/objects.ts';
import { prepareCluster } from '../programs/binaries.ts';
import { type Fleet, type FleetNode, type Rows, startFleet } from './usage.ts';

const readiness = await prepareCluster();
const ALL = ['p1-1', 'p2-1', 'p3-1'];
const tcp = (address: string, port = 80): Target => ({ protocol: 'TCP', address, port });

describe.skipIf(!readiness.isReady)('policies on three nodes', () => {
  let fleet: Fleet;

  beforeAll(async () => {
    if (!readiness.isReady) return;
    fleet = await startFleet(readiness.binaries, 1);
    for (const name of ALL) await fleet.addPod(fleet.pod(name), { app: 'web' });
  });
  afterAll(() => fleet?.remove());

  /** A Service of the web pods; returns its ClusterIP. */
  async function serve(name: string, spec: object, namespace = 'default'): Promise<string> {
    await addService(fleet.plane.api, name, { selector: { app: 'web' }, ...spec }, namespace);
    const [clusterIp = ''] = await fleet.clusterIps(name, namespace);
    return clusterIp;
  }
  const patch = (name: string, change: object, ...more: string[]): Promise<string> =>
    fleet.kubectl('patch', 'service', name, '--type=merge', '-p', JSON.stringify(change), ...more);
  const reached = (target: Target): Promise<string[][]> =>
    Promise.all(fleet.nodes.map((node) => node.reached(target)));
  const setReady = (name: string, readiness: 'ready' | 'not-ready'): Promise<unknown> => {
    const { ipv4, ipv6 } = fleet.pod(name);
    return setPod(fleet.plane.api, { name, ips: [ipv4, ipv6] }, readiness);
  };

  test('publishNotReadyAddresses: Pods that are not ready serve', async () => {
    const target = tcp(await serve('early', {}));
    await fleet.right({ early: 3 });
    await setReady('p1-1', 'not-ready');
    await fleet.right({ early: 2 });
    await patch('early', { spec: { publishNotReadyAddresses: true } });
    await fleet.right({ early: 3 });
    expect(await reached(target)).toEqual([ALL, ALL, ALL]);
    await patch('early', { spec: { publishNotReadyAddresses: false } });
    await fleet.right({ early: 2 });
    await setReady('p1-1', 'ready');
    await fleet.right({ early: 3 });
  });

  test('PreferSameZone: each node uses the Pods of its zone as long as there are any', async () => {
    const target = tcp(await serve('zoned', { trafficDistribution: 'PreferSameZone' }));
    await fleet.right({ zoned: 1 });
    expect(await reached(target)).toEqual([['p1-1'], ['p2-1'], ['p3-1']]);
    await setReady('p1-1', 'not-ready');
    const counts: Readonly<Record<string, number>> = { n1: 2, n2: 1, n3: 1 };
    await fleet.right((rows, node) => countOf(rows, 'zoned') === counts[node]);
    expect(await reached(target)).toEqual([['p2-1', 'p3-1'], ['p2-1'], ['p3-1']]);
    await setReady('p1-1', 'ready');
    await fleet.right({ zoned: 1 });
    await patch('zoned', { spec: { trafficDistribution: null } });
    await fleet.right({ zoned: 3 });
  });

  test('internalTrafficPolicy Local: only Pods of this node', async () => {
    const target = tcp(await serve('inner', { internalTrafficPolicy: 'Local' }));
    await fleet.right({ inner: 1 });
    expect(await reached(target)).toEqual([['p1-1'], ['p2-1'], ['p3-1']]);
    await setReady('p2-1', 'not-ready');
    await fleet.right((rows, node) => countOf(rows, 'inner') === (node === 'n2' ? 0 : 1));
    // There are Pods on other nodes: dropped, not rejected.
    const [first, second, third] = await reached(target);
    expect([first, third]).toEqual([['p1-1'], ['p3-1']]);
    expect(second).toEqual([expect.stringMatching(/^E?(PERM|TIMEDOUT)$/)]);
    await setReady('p2-1', 'ready');
    await fleet.right({ inner: 1 });
  });

  test('externalTrafficPolicy Local: all Pods for clients inside, and each node reports to its load balancer', async () => {
    await serve('outer', { type: 'LoadBalancer', externalTrafficPolicy: 'Local' });
    const ingress = [{ ip: '198.51.100.8', ipMode: 'VIP' }];
    await patch('outer', { status: { loadBalancer: { ingress } } }, '--subresource=status');
    await fleet.right((rows) => rows.filter(({ name }) => name === 'outer').length === 3);
    expect(await reached(tcp('198.51.100.8'))).toEqual([ALL, ALL, ALL]);
    const path = 'jsonpath={.spec.healthCheckNodePort}';
    const port = Number(await fleet.kubectl('get', 'service', 'outer', '-o', path));
    await untilStatuses(port, '/', [200, 200, 200]);
    await setReady('p3-1', 'not-ready');
    await untilStatuses(port, '/', [200, 200, 503]);
    await setReady('p3-1', 'ready');
    await untilStatuses(port, '/', [200, 200, 200]);
  });

  test('terminating Pods serve only if there are no ready ones', async () => {
    const target = tcp(await serve('drain', {}));
    await terminatePod(fleet.plane.api, 'p1-1');
    await fleet.right({ drain: 2 });
    expect(await reached(target)).toEqual([2, 2, 2].map(() => ['p2-1', 'p3-1']));
    await setReady('p2-1', 'not-ready');
    await setReady('p3-1', 'not-ready');
    await fleet.right((rows) => backendsOf(rows, 'drain') === `${fleet.pod('p1-1').ipv4}:8080`);
    expect(await reached(target)).toEqual([['p1-1'], ['p1-1'], ['p1-1']]);
    await setReady('p3-1', 'ready');
    await fleet.right((rows) => backendsOf(rows, 'drain') === `${fleet.pod('p3-1').ipv4}:8080`);
    expect(await reached(target)).toEqual([['p3-1'], ['p3-1'], ['p3-1']]);
    await removePod(fleet.plane.api, 'p1-1');
    await fleet.addPod(fleet.pod('p1-1'), { app: 'web' });
    await setReady('p2-1', 'ready');
    await fleet.right({ drain: 3 });
  });

  test('a node that the cluster autoscaler will remove reports 503', async () => {
    const taint = 'ToBeDeletedByClusterAutoscaler';
    await untilStatuses(10256, '/healthz', [200, 200, 200]);
    await fleet.kubectl('taint', 'node', 'n3', `${taint}=now:NoSchedule`);
    try {
      await untilStatuses(10256, '/healthz', [200, 200, 503]);
      expect(await statuses(10256, '/livez')).toEqual([200, 200, 200]);
    } finally {
      await fleet.kubectl('taint', 'node', 'n3', `${taint}-`);
    }
    await untilStatuses(10256, '/healthz', [200, 200, 200]);
  });

  test('a deleted node reports 503 on /healthz and stays live', async () => {
    await untilStatuses(10256, '/healthz', [200, 200, 200]);
    await fleet.kubectl('delete', 'node', 'n3');
    await untilStatuses(10256, '/healthz', [200, 200, 503]);
    expect(await statuses(10256, '/livez')).toEqual([200, 200, 200]);
    await fleet.right({});
    const { ipv4, ipv6, zone } = fleet.node('n3');
    await addNode(fleet.plane.api, { name: 'n3', addresses: [ipv4, ipv6], zone });
    await untilStatuses(10256, '/healthz', [200, 200, 200]);
    await fleet.right({ early: 3 });
  });

  test('deleting a namespace removes its Services and no others', async () => {
    const { api } = fleet.plane;
    await fleet.kubectl('create', 'namespace', 'shop');
    await fleet.addPod(fleet.pod('p1-1'), { app: 'web' }, 'shop');
    const target = tcp(await serve('till', {}, 'shop'));
    await serve('desk', { type: 'NodePort' }, 'shop');
    await fleet.right({ till: 1, desk: 1 });
    expect(await reached(target)).toEqual([['p1-1'], ['p1-1'], ['p1-1']]);
    await fleet.kubectl('delete', 'namespace', 'shop', '--wait=false');
    // In place of the kubelet: terminating Pods are removed.
    await until(
      async () => {
        const pod = await api.get<{ metadata: object }>(`${podsPath('shop')}/p1-1`);
        return 'deletionTimestamp' in pod.metadata;
      },
      { what: 'the Pod to be told to end', timeoutMs: 60_000 },
    );
    await removePod(api, 'p1-1', 'shop');
    await fleet.kubectl('wait', 'namespace/shop', '--for=delete', '--timeout=240s');
    await fleet.right((rows) => rows.every(({ namespace }) => namespace !== 'shop'));
    for (const [code, ...others] of await reached(target)) {
      expect(code).toMatch(/^E[A-Z]+$/);
      expect(others).toEqual([]);
    }
  });

  const statuses = (port: number, path: string): Promise<number[]> =>
    Promise.all(fleet.nodes.map((node) => statusOf(node, port, path)));
  async function untilStatuses(
    port: number,
    path: string,
    wanted: readonly number[],
    timeoutMs = 60_000,
  ): Promise<void> {
    const isWanted = async (): Promise<boolean> => {
      const seen = await statuses(port, path);
      if (seen.join() === wanted.join()) return true;
      throw new Error(`it is ${seen.join()}`);
    };
    await until(isWanted, { what: `${path} of port ${port} to be ${wanted.join()}`, timeoutMs });
  }
});

async function statusOf({ agent }: FleetNode, port: number, path: string): Promise<number> {
  return (await agent.http(port, path)).status;
}

const rowOf = (rows: Rows, service: string) => rows.find(({ name }) => name === service);
const countOf = (rows: Rows, service: string) => rowOf(rows, service)?.desired?.length;
const backendsOf = (rows: Rows, service: string) => rowOf(rows, service)?.desired?.join();
