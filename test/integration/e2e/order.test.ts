// SPDX-License-Identifier: Apache-2.0
// The order in which a new cluster comes up: fairlead before the CNI plugin and before DNS, from the API server's own address.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { prepareProxyImages } from './lab/archives.ts';
import { addKubeadm, applyFairlead, onAgent } from './lab/proxies.ts';
import { openResults } from './lab/results.ts';
import { addPods, EVERYTHING, importImages } from './lab/stage.ts';
import { addNetworks, type RealCluster, startNodes } from './nodes/nodes.ts';
import { prepareNodes } from './programs.ts';

const nodes = await prepareNodes();
const proxies = nodes.isReady ? await prepareProxyImages(nodes.binaries.kubeProxy) : nodes;

describe.skipIf(!proxies.isReady)(
  'a new cluster',
  () => {
    let cluster: RealCluster;
    const results = openResults('order');
    beforeAll(async () => {
      if (!nodes.isReady || !proxies.isReady) return;
      cluster = await startNodes(nodes.binaries, nodes.programs, ['n1', 'n2'], {
        network: 'later',
      });
      await importImages(cluster, proxies.images);
    }, 600_000);
    afterAll(async () => {
      results.save();
      await cluster?.remove();
    });

    const ready = (): Promise<string> =>
      cluster.plane.kubectl([
        ...['get', 'nodes', '-o'],
        "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}",
      ]);

    test('fairlead is ready on nodes that are not', async () => {
      await addKubeadm(cluster, { runsKubeProxy: false });
      await applyFairlead(cluster);
      expect(await ready()).toBe('False False');
      expect(await onAgent(cluster, 'n1', ['status'])).toContain('https://192.168.78.250:6443');
    });

    test('the network, DNS and pods come after it, and everything is served', async () => {
      await addNetworks(cluster.plane, cluster.nodes);
      expect(await ready()).toBe('True True');
      const stage = await addPods(cluster);
      const nothing = async (): Promise<void> => undefined;
      await results.scenario(stage, 'fairlead before the CNI plugin and DNS', EVERYTHING, nothing);
    });
  },
  900_000,
);
