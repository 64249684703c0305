// SPDX-License-Identifier: Apache-2.0
// A node with manifests instead of an API server and a mounted bpf file system, on which containers of the image are started.
import { join } from 'node:path';
import { mountBpffs } from '../../../tools/lab/mounting.ts';
import { service, target } from '../../support/builders.ts';
import { routeServices } from '../../support/iptables/routed-node.ts';
import { startNodes, type TestNode } from '../../support/node.ts';
import { agentSpec, type Without } from './agent.ts';
import { type Container, startContainer } from './container.ts';
import type { Image, RunnableImage } from './image.ts';
import { makeMachine, type Rooted } from './machine.ts';

export interface AgentNode extends Rooted {
  readonly node: TestNode;
  /** @param other an image that is not this processor's */
  start(without?: Without, other?: Image): Promise<Container>;
  /** Ends what start() has started since the last call. */
  end(): Promise<void>;
  /** Who answers five connections to Service n. */
  answers(n?: number): Promise<Readonly<Record<string, number>>>;
  remove(): void;
}

/** With Services web-1 to web-N, which a pod of the node serves. */
export async function startAgentNode(image: RunnableImage, services = 1): Promise<AgentNode> {
  const nodes = await startNodes([{ name: 'n1', servers: ['web-1'], clients: ['client'] }]);
  const node = nodes.nodes[0]!;
  const metadata = { name: node.instance.nodeName };
  node.manifests.put('node.yaml', [{ apiVersion: 'v1', kind: 'Node', metadata }]);
  for (let n = 1; n <= services; n += 1) {
    node.manifests.put(`web-${n}.yaml`, service(`web-${n}`, { n }, node.servers));
  }
  await routeServices(node);
  const rooted = await makeMachine(nodes, image);
  await mountBpffs(join(rooted.root, 'sys/fs/bpf'));
  const started: Container[] = [];
  return {
    ...{ ...rooted, node },
    start: async (without, other) => {
      const spec = agentSpec(rooted, node.instance.manifests.path, without);
      const machine = { ...rooted.machine, image: { ...image, ...other } };
      const container = await startContainer(machine, spec);
      started.push(container);
      return container;
    },
    end: async () => {
      await Promise.all(started.splice(0).map((container) => container.remove()));
    },
    answers: async (n = 1) => (await node.client().burst(target({ n }), { connections: 5 })).hits,
    remove: () => nodes.remove(),
  };
}

/** What it says that is no log entry, and its warnings. */
export const complaints = ({ log }: Container): readonly string[] =>
  log.filter((line) => !line.startsWith('{') || /"level":"(warn|error)"/.test(line));
