// SPDX-License-Identifier: Apache-2.0
// The order in which a new cluster comes up: fairlead before the CNI plugin and before DNS, from the API server's own address.
import { expect, test } from 'vitest';
import { addKubeadm, applyFairlead, onAgent } from './lab/proxies.ts';
import { addPods, EVERYTHING, importImages } from './lab/stage.ts';
import { describeCluster } from './lab/suite.ts';
import { addNetworks, startNodes } from './nodes/nodes.ts';

describeCluster(
  'a new cluster',
  'order',
  async ({ binaries, programs, images }) => {
    const cluster = await startNodes(binaries, programs, ['n1', 'n2'], { network: 'later' });
    await importImages(cluster, images);
    return cluster;
  },
  (cluster, results) => {
    const ready = (): Promise<string> =>
      cluster().plane.kubectl([
        ...['get', 'nodes', '-o'],
        "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}",
      ]);

    test('fairlead is ready on nodes that are not', async () => {
      await addKubeadm(cluster(), { runsKubeProxy: false });
      await applyFairlead(cluster());
      expect(await ready()).toBe('False False');
      expect(await onAgent(cluster(), 'n1', ['status'])).toContain('https://192.168.78.250:6443');
    });

    test('the network, DNS and pods come after it, and everything is served', async () => {
      await addNetworks(cluster().plane, cluster().nodes);
      expect(await ready()).toBe('True True');
      const stage = await addPods(cluster());
      const nothing = async (): Promise<void> => undefined;
      await results.scenario(stage, 'fairlead before the CNI plugin and DNS', EVERYTHING, nothing);
    });
  },
);
