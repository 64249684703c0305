// SPDX-License-Identifier: Apache-2.0
// A control plane and one node, `n1`, with a client and a Service `web` of one pod: the environment for tests
// of the agent itself.
import type { Target } from '../../../../tools/lab/client/protocol.ts';
import { startNodes, type TestNode, type TestNodes } from '../../../support/node.ts';
import { type ControlPlane, startControlPlane } from '../control-plane/control-plane.ts';
import type { PlaneOptions } from '../control-plane/parts.ts';
import { addNode, addPod, addService } from '../objects/objects.ts';
import type { Binaries } from '../programs/binaries.ts';

export interface ServedNode {
  readonly plane: ControlPlane;
  readonly nodes: TestNodes;
  readonly node: TestNode;
  /** The Service's ClusterIP and port. */
  readonly web: Target;
  /** Names of the pods that answered there and error codes; `['web-1']` if all is well. */
  reached(connections?: number): Promise<string[]>;
  remove(): Promise<void>;
}

export async function startServedNode(
  binaries: Binaries,
  options: PlaneOptions = {},
): Promise<ServedNode> {
  const plane = await startControlPlane(binaries, options);
  let nodes: TestNodes | undefined;
  const remove = async (): Promise<void> => {
    nodes?.remove();
    await plane.remove();
  };
  try {
    nodes = await startNodes([{ name: 'n1', servers: ['web-1'], clients: ['client'] }]);
    const [node] = nodes.nodes as [TestNode];
    await plane.connect(nodes.topology.nodes[0]!);
    await addNode(plane.api, { name: 'n1', addresses: ['10.1.1.1'] });
    const [pod] = node.pods('web-1');
    const labels = { app: 'web' };
    await addPod(plane.api, { name: 'web-1', nodeName: 'n1', ips: [pod!.ipv4], labels });
    const { spec } = await addService(plane.api, 'web', { selector: labels });
    const web: Target = { protocol: 'TCP', address: spec?.clusterIP ?? '', port: 80 };
    const reached = async (connections = 20): Promise<string[]> => {
      const { hits, failures } = await node.client().burst(web, { connections });
      return [...Object.keys(hits), ...Object.keys(failures)];
    };
    return { ...{ plane, nodes, node, web }, reached, remove };
  } catch (error) {
    await remove();
    throw error;
  }
}
