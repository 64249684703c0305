// SPDX-License-Identifier: Apache-2.0
// A cluster of one node whose pods are the endpoints of Services, and a client outside of it.
import { startNodes, type TestNode, type TestNodes } from '../../../support/node.ts';
import { type ControlPlane, startControlPlane } from '../control-plane/control-plane.ts';
import { addNode, addPod } from '../objects/objects.ts';
import type { Binaries } from '../programs/binaries.ts';

export interface VisitedNode {
  readonly plane: ControlPlane;
  readonly nodes: TestNodes;
  readonly node: TestNode;
  /** Its client is the visitor. */
  readonly outside: TestNode;
  remove(): Promise<void>;
}

/** At this address the visitor finds NodePorts. */
export const NODE_ADDRESS = '192.168.77.1';
/** Labels of the pods. */
export const WEB_PODS = { app: 'web' };

export async function startVisitedNode(
  binaries: Binaries,
  servers: readonly string[],
): Promise<VisitedNode> {
  const plane = await startControlPlane(binaries);
  const nodes = await startNodes([
    { name: 'n1', servers, clients: ['client'] },
    { name: 'far', servers: [], clients: ['visitor'] },
  ]);
  const [node, outside] = nodes.nodes as [TestNode, TestNode];
  await plane.connect(nodes.topology.nodes[0]!);
  await addNode(plane.api, { name: 'n1', addresses: [NODE_ADDRESS, 'fd00:77::1'] });
  for (const { name, ipv4, ipv6 } of node.servers) {
    await addPod(plane.api, { name, nodeName: 'n1', ips: [ipv4, ipv6], labels: WEB_PODS });
  }
  const remove = async (): Promise<void> => {
    nodes.remove();
    await plane.remove();
  };
  return { plane, nodes, node, outside, remove };
}
