// SPDX-License-Identifier: Apache-2.0
// fairlead beside the real kube-proxy on one node, with the arguments of deploy/kustomize/beside-kube-proxy:
// fairlead serves the sockets of the node, kube-proxy serves packets from outside, and starting or stopping one
// does not disturb the other. With its programs on devices fairlead serves packets as well, and says that both do.
import { fileURLToPath } from 'node:url';
import type { V1DaemonSet } from '@kubernetes/client-node';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ownPaths, runCommand } from '../../../../tools/lab/agent.ts';
import type { Target } from '../../../../tools/lab/client/protocol.ts';
import { getInSandbox } from '../../../support/http/get.ts';
import type { TestNode, TestNodes } from '../../../support/node.ts';
import { untilHolds } from '../../../support/until.ts';
import { parseYamls } from '../../../support/yaml.ts';
import { type ClusterAgent, startClusterAgent } from '../agent/agent.ts';
import type { ControlPlane } from '../control-plane/control-plane.ts';
import { addService } from '../objects/objects.ts';
import { prepareCluster } from '../programs/binaries.ts';
import { type KubeProxy, prepareKubeProxy, startKubeProxy } from './kube-proxy.ts';
import { NODE_ADDRESS, startVisitedNode, type VisitedNode, WEB_PODS } from './visited-node.ts';

const readiness = await prepareCluster();
const missing = readiness.isReady ? await prepareKubeProxy() : readiness.reason;
const OVERLAY = fileURLToPath(
  new URL('../../../../deploy/kustomize/beside-kube-proxy', import.meta.url),
);

describe.skipIf(!readiness.isReady || missing !== undefined)('beside kube-proxy', () => {
  let stage: VisitedNode;
  let plane: ControlPlane;
  let nodes: TestNodes;
  let node: TestNode;
  let outside: TestNode;
  let proxy: KubeProxy | undefined;
  let agent: ClusterAgent | undefined;
  let inside: Target;
  let nodePort: Target;

  beforeAll(async () => {
    if (!readiness.isReady) return;
    stage = await startVisitedNode(readiness.binaries, ['web-1', 'web-2']);
    ({ plane, nodes, node, outside } = stage);
    const address = NODE_ADDRESS;
    const { spec } = await addService(plane.api, 'web', { type: 'NodePort', selector: WEB_PODS });
    inside = { protocol: 'TCP', address: spec?.clusterIP ?? '', port: 80 };
    nodePort = { protocol: 'TCP', address, port: spec?.ports?.[0]?.nodePort ?? 0 };
    proxy = await startKubeProxy(plane, nodes.topology.nodes[0]!, { mode: 'nftables' });
  });
  afterAll(async () => {
    await agent?.stop();
    await proxy?.remove();
    await stage?.remove();
  });

  const reached = async (from: TestNode, target: Target, connections = 40): Promise<string[]> => {
    const { hits, failures } = await from.client().burst(target, { connections });
    return [...Object.keys(hits), ...Object.keys(failures)].sort();
  };
  const startBeside = async (): Promise<ClusterAgent> =>
    startClusterAgent(plane, node, { identity: 'proxy', flags: await overlayFlags() });
  /** The arguments that the overlay adds. */
  async function overlayFlags(): Promise<string[]> {
    const documents = parseYamls<V1DaemonSet>(await plane.kubectl(['kustomize', OVERLAY]));
    const set = documents.find(({ kind }) => kind === 'DaemonSet');
    const args = set?.spec?.template.spec?.containers[0]?.args ?? [];
    return args.filter((arg) => arg !== 'run' && !arg.startsWith('--hostname-override'));
  }

  test('kube-proxy alone: packets from outside are served, sockets are not translated', async () => {
    await untilHolds(
      async () => expect(await reached(outside, nodePort)).toEqual(['web-1', 'web-2']),
      60_000,
    );
    // The pods of these tests have no route to ClusterIPs, so only socket hooks can serve them.
    expect(await reached(node, inside, 2)).toEqual(['EHOSTUNREACH']);
  });

  test('fairlead starts, is removed and starts again: sockets are served, clients from outside are not disturbed', async () => {
    const visits = await outside.client().startLoad(nodePort);
    agent = await startBeside();
    await untilHolds(
      async () => expect(await reached(node, inside)).toEqual(['web-1', 'web-2']),
      60_000,
    );
    expect(await reached(node, nodePort)).toEqual(['web-1', 'web-2']);
    expect((await getInSandbox(node.instance.sandbox, 10266, '/readyz')).status).toBe(200);
    expect((await getInSandbox(node.instance.sandbox, 10267, '/healthz')).status).toBe(200);
    expect((await fetch(`${proxy!.healthUrl}/healthz`)).status).toBe(200);
    expect(agent.log.filter((line) => line.includes('"level":"warn"'))).toEqual([]);
    expect(await agent.stop()).toBe(0);
    expect(await reached(node, inside)).toEqual(['web-1', 'web-2']);
    agent = await startBeside();
    const { failures, connections } = await visits.stop();
    expect(failures).toEqual([]);
    expect(connections).toBeGreaterThan(100);
  });

  test('fairlead takes the packets over with --devices auto, warns, and disturbs no client', async () => {
    const visits = await outside.client().startLoad(nodePort);
    await agent?.stop();
    const flags = (await overlayFlags()).filter((flag) => flag !== '--devices=none');
    agent = await startClusterAgent(plane, node, { identity: 'proxy', flags });
    const { log } = agent;
    await untilHolds(async () => {
      const warning = log.find((line) => line.includes('kube-proxy serves this node, too'));
      expect(warning).toMatch(/kube-proxy \(.*"advice":"remove kube-proxy/);
      const args = ['connections', 'web', '-o', 'json', ...ownPaths(node.instance)];
      const { stdout } = await runCommand(node.instance, args);
      expect(JSON.parse(stdout)).not.toEqual([]);
    });
    const { failures } = await visits.stop();
    expect(failures).toEqual([]);
    await agent.stop();
    agent = await startBeside();
    await untilHolds(
      async () => expect(await reached(outside, nodePort)).toEqual(['web-1', 'web-2']),
      60_000,
    );
  });

  test('kube-proxy is removed with its rules: clients from outside fail, sockets of the node do not', async () => {
    const load = await node.client().startLoad(inside);
    await proxy!.remove();
    proxy = undefined;
    expect(await reached(outside, nodePort, 2)).toEqual(['ECONNREFUSED']);
    expect(await reached(node, inside)).toEqual(['web-1', 'web-2']);
    expect((await load.stop()).failures).toEqual([]);
  });
});
