// SPDX-License-Identifier: Apache-2.0
// One node with a pod behind a Service, and a control plane with the objects that kubeadm creates: here the image
// tests start their containers. The node's root is a folder with the node's own cgroups and no bpf file system yet.
import type { Target } from '../../../tools/lab/client/protocol.ts';
import { kubeadmObjects } from '../../support/kubeadm/objects.ts';
import { startNodes, type TestNode, type TestNodes } from '../../support/node.ts';
import { type ControlPlane, startControlPlane } from '../cluster/control-plane/control-plane.ts';
import { addNode, addPod, addService } from '../cluster/objects/objects.ts';
import type { Binaries } from '../cluster/programs/binaries.ts';
import type { Machine } from './container.ts';
import type { RunnableImage } from './image.ts';
import { makeMachine } from './machine.ts';
import { type PodContainers, type PodHost, podOf } from './pod.ts';

export interface Stage {
  readonly plane: ControlPlane;
  readonly node: TestNode;
  readonly machine: Machine;
  readonly host: PodHost;
  /** Which pods answer a pod of the node through the Service, or how its connections fail. */
  reached(): Promise<string[]>;
  readonly web: Target;
  /** Fails if the API server returns a warning. */
  apply(...args: readonly string[]): Promise<string>;
  pod(daemonSet: string): Promise<PodContainers>;
  remove(): Promise<void>;
}

export async function openStage(binaries: Binaries, image: RunnableImage): Promise<Stage> {
  const plane = await startControlPlane(binaries);
  let nodes: TestNodes | undefined;
  const remove = async (): Promise<void> => {
    try {
      nodes?.remove();
    } finally {
      await plane.remove();
    }
  };
  try {
    nodes = await startNodes([{ name: 'n1', servers: ['web-1'], clients: ['client'] }]);
    const [node] = nodes.nodes as [TestNode];
    await plane.connect(nodes.topology.nodes[0]!);
    const web = await addWeb(plane, node);
    const { machine, root } = await makeMachine(nodes, image);
    const host = { nodeName: node.instance.nodeName, directory: machine.directory, root };
    const apply = (...args: readonly string[]): Promise<string> =>
      plane.kubectl(['apply', '--warnings-as-errors', ...args]);
    const objects = kubeadmObjects(plane.server.nodeUrl);
    await plane.kubectl(['apply', '--warnings-as-errors', '-f', '-'], objects);
    return {
      ...{ plane, node, machine, host, web, apply, remove },
      reached: async () => {
        const { hits, failures } = await node.client().burst(web, { connections: 20 });
        return [...Object.keys(hits), ...Object.keys(failures)];
      },
      pod: (daemonSet) => podOf(plane, host, daemonSet),
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function addWeb(plane: ControlPlane, node: TestNode): Promise<Target> {
  await addNode(plane.api, { name: 'n1', addresses: ['10.1.1.1'] });
  const [pod] = node.pods('web-1');
  const labels = { app: 'web' };
  await addPod(plane.api, { name: 'web-1', nodeName: 'n1', ips: [pod!.ipv4], labels });
  const { spec } = await addService(plane.api, 'web', { selector: labels });
  return { protocol: 'TCP', address: spec?.clusterIP ?? '', port: 80 };
}
