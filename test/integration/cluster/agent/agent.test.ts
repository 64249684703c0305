// SPDX-License-Identifier: Apache-2.0
// The agent instead of kube-proxy: objects from a real API server, slices from the real controller,
// only the rights of system:node-proxier, real sockets.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ServiceRow } from '../../../../src/observe/service-rows.ts';
import type { Target } from '../../../../tools/lab/client/protocol.ts';
import type { Pod } from '../../../../tools/lab/wiring.ts';
import { askAgent } from '../../../support/fixture/proxies/ask-agent.ts';
import { startNodes, type TestNode, type TestNodes } from '../../../support/node.ts';
import { untilHolds } from '../../../support/until.ts';
import { type ControlPlane, startControlPlane } from '../control-plane/control-plane.ts';
import {
  addNode,
  addPod,
  addService,
  NODES,
  type Readiness,
  removePod,
  servicesPath,
  setPod,
} from '../objects/objects.ts';
import { prepareCluster } from '../programs/binaries.ts';
import { type ClusterAgent, startClusterAgent } from './agent.ts';

const readiness = await prepareCluster();

describe.skipIf(!readiness.isReady)('an agent on a real API server', () => {
  let plane: ControlPlane;
  let nodes: TestNodes;
  let node: TestNode;
  let agent: ClusterAgent;
  let clusterIp: string;

  beforeAll(async () => {
    if (!readiness.isReady) return;
    plane = await startControlPlane(readiness.binaries);
    nodes = await startNodes([
      { name: 'n1', servers: ['web-1', 'web-2', 'web-3'], clients: ['client'] },
    ]);
    [node] = nodes.nodes as [TestNode];
    await plane.connect(nodes.topology.nodes[0]!);
    await addNode(plane.api, { name: 'n1', addresses: ['10.1.1.1'], zone: 'a' });
    for (const pod of node.pods('web-1', 'web-2')) await addWebPod(pod);
    await addService(plane.api, 'web', {
      selector: { app: 'web' },
      ports: [{ name: 'http', port: 80, targetPort: 8080 as never }],
    });
    const service = await plane.api.get<{ spec: { clusterIP: string } }>(`${servicesPath()}/web`);
    clusterIp = service.spec.clusterIP;
    agent = await startClusterAgent(plane, node, { identity: 'proxy' });
  });
  afterAll(async () => {
    await agent?.stop();
    nodes?.remove();
    await plane?.remove();
  });

  const addWebPod = (pod: Pod) =>
    addPod(plane.api, {
      name: pod.name,
      nodeName: 'n1',
      ips: [pod.ipv4, pod.ipv6],
      labels: { app: 'web' },
    });
  const setReadiness = (name: string, readiness: Readiness) => {
    const [pod] = node.pods(name);
    return setPod(plane.api, { name, ips: [pod!.ipv4, pod!.ipv6] }, readiness);
  };
  const web = (): Target => ({ protocol: 'TCP', address: clusterIp, port: 80 });
  const reached = async (target: Target): Promise<string[]> => {
    const { hits, failures } = await node.client().burst(target, { connections: 90 });
    return [...Object.keys(hits), ...Object.keys(failures)].sort();
  };

  test('Services and real slices reach the kernel with only the rights of system:node-proxier', async () => {
    await untilHolds(async () => expect(await reached(web())).toEqual(['web-1', 'web-2']), 60_000);
    const { source } = await node.status();
    expect(source).toMatchObject({
      kind: 'cluster',
      cluster: { winner: 'kubeconfig', isSynced: true, problems: [] },
    });
  });

  test('follows pods that are added, become unready and are removed', async () => {
    const [third] = node.pods('web-3');
    await addWebPod(third!);
    await untilHolds(
      async () => expect(await reached(web())).toEqual(['web-1', 'web-2', 'web-3']),
      60_000,
    );
    await setReadiness('web-1', 'not-ready');
    await untilHolds(async () => expect(await reached(web())).toEqual(['web-2', 'web-3']), 60_000);
    await setReadiness('web-1', 'ready');
    await removePod(plane.api, 'web-3');
    await untilHolds(async () => expect(await reached(web())).toEqual(['web-1', 'web-2']), 60_000);
  });

  test('traffic continues while the API server is down, and missed changes are applied on its return', async () => {
    const load = await node.client().startLoad(web());
    await plane.server.kill();
    await untilHolds(
      async () => expect((await node.status()).problems.length).toBeGreaterThan(0),
      60_000,
    );
    expect(await reached(web())).toEqual(['web-1', 'web-2']);
    await plane.server.start();
    await setReadiness('web-2', 'not-ready');
    await untilHolds(async () => expect(await reached(web())).toEqual(['web-1']), 150_000);
    await setReadiness('web-2', 'ready');
    await untilHolds(async () => expect(await reached(web())).toEqual(['web-1', 'web-2']), 150_000);
    expect((await load.stop()).failures).toEqual([]);
  });

  test('health, metrics and proxy mode respond as kube-proxy’s do', async () => {
    expect(await agent.http(10256, '/livez')).toMatchObject({ status: 200 });
    const metrics = await agent.http(10249, '/metrics');
    expect(metrics.status).toBe(200);
    expect(metrics.body).toContain('kubeproxy_sync_proxy_rules_duration_seconds_bucket');
    expect(metrics.body).toMatch(/^fairlead_watch_last_activity_timestamp_seconds\{.*\} [\d.]+$/m);
    expect(await agent.http(10249, '/proxyMode')).toMatchObject({ status: 200, body: 'iptables' });
  });

  test('an API server with an empty store is believed only after a second list', async () => {
    // The old store needs more revisions than an empty one creates by itself, so that revisions go backwards.
    for (let round = 0; round < 800; round += 1) {
      await plane.api.patch(`${NODES}/n1`, { metadata: { annotations: { round: String(round) } } });
    }
    await plane.replaceStore();
    await untilHolds(() => expect(agent.log.join('\n')).toContain('suspicious list'));
    expect(await reached(web())).toEqual(['web-1', 'web-2']);
    await untilHolds(async () => {
      const rows = (await askAgent(node.instance.runDir, '/v1/services')) as ServiceRow[];
      const names = rows.map(({ name, kernelState }) => `${name} ${kernelState}`);
      expect(new Set(names)).toEqual(new Set(['kubernetes ok']));
    }, 90_000);
  });
});
