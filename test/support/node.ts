// SPDX-License-Identifier: Apache-2.0
// Nodes for namespace tests: pods with real servers, client programs and one agent each. Start them in beforeAll,
// call `remove()` in afterAll; tests do everything else through their node.

import type { Status } from '../../src/observe/status.ts';
import type { Child } from '../../src/sys/exec.ts';
import { type Agent, type Instance, makeInstance, startAgent } from '../../tools/lab/agent.ts';
import type { ManifestDirectory } from '../../tools/lab/manifests.ts';
import { removeLeftovers } from '../../tools/lab/ownership.ts';
import { type Sandbox, startServer } from '../../tools/lab/sandbox.ts';
import { buildTopology, type Topology } from '../../tools/lab/topology.ts';
import { type Client, startClient } from '../../tools/lab/traffic.ts';
import type { Pod } from '../../tools/lab/wiring.ts';
import { createProgrammed, type Programmed } from './dataplane/programmed.ts';
import { askAgent } from './fixture/proxies/ask-agent.ts';
import { leftoversOf } from './leftovers.ts';

export interface NodeShape {
  readonly name: string;
  /** Pods with an echo server, which answers with the name of its pod. */
  readonly servers: readonly string[];
  readonly clients: readonly string[];
}

export interface TestNode {
  readonly instance: Instance;
  readonly manifests: ManifestDirectory;
  readonly servers: readonly Pod[];
  readonly serverPrograms: readonly Child[];
  /** Sandboxes of the client pods and of the node itself, for further clients. */
  readonly sandboxes: readonly Sandbox[];
  readonly self: Sandbox;
  client(index?: number): Client;
  /** Pods by name, in the order asked for. */
  pods(...names: readonly string[]): Pod[];
  startAgent(flags?: readonly string[]): Promise<Agent>;
  /** The admin API of the running agent. */
  status(): Promise<Status>;
  readonly programmed: Programmed;
}

export interface TestNodes {
  readonly nodes: readonly TestNode[];
  readonly topology: Topology;
  /** Removes everything and throws if anything with our prefix is left. */
  remove(): void;
}

export const SERVER_PORTS = [8080, 8081, 5353];

/** Four hundred connections a second meet every change; more would take the time of what is tested. */
const LOAD = { concurrency: 4, pauseMs: 10 };

/** Tests take most of their Services away and mean it; those of test/integration/netns/slips have a delay. */
const AT_ONCE = ['--manifests-removal-delay', '0s'];

export async function startNodes(shapes: readonly NodeShape[]): Promise<TestNodes> {
  removeLeftovers();
  const topology = await buildTopology(
    shapes.map(({ name, servers, clients }) => ({ name, pods: [...clients, ...servers] })),
  );
  const remove = (): void => {
    topology.remove();
    const left = leftoversOf(topology);
    if (left.length > 0) throw new Error(`left behind: ${left.join(', ')}`);
  };
  try {
    const nodes = await Promise.all(shapes.map((shape) => startNode(topology, shape)));
    return { nodes, topology, remove };
  } catch (error) {
    remove();
    throw error;
  }
}

/** One node: the usual case. */
export async function startOneNode(
  servers: readonly string[],
  clients: readonly string[] = ['client'],
): Promise<TestNode & { remove(): void }> {
  const { nodes, remove } = await startNodes([{ name: 'n1', servers, clients }]);
  const [node] = nodes;
  if (node === undefined) throw new Error('no node');
  return { ...node, remove };
}

async function startNode(topology: Topology, shape: NodeShape): Promise<TestNode> {
  const host = topology.nodes.find(({ name }) => name === shape.name);
  if (host === undefined) throw new Error(`no node ${shape.name}`);
  const servers = host.pods.filter(({ name }) => shape.servers.includes(name));
  const sandboxes = host.pods.filter(({ name }) => shape.clients.includes(name));
  const [instance, serverPrograms, clients] = await Promise.all([
    makeInstance(topology, host),
    Promise.all(servers.map((pod) => startServer(pod, SERVER_PORTS))),
    Promise.all(sandboxes.map((sandbox) => startClient(sandbox, LOAD))),
  ]);
  const find = (name: string): Pod =>
    found(
      servers.find((pod) => pod.name === name),
      name,
    );
  return {
    ...{ instance, manifests: instance.manifests, servers, serverPrograms, sandboxes, self: host },
    client: (index = 0) => found(clients[index], `client ${index}`),
    pods: (...names) => names.map(find),
    startAgent: (flags = []) => startAgent(instance, [...AT_ONCE, ...flags]),
    status: async () => (await askAgent(instance.runDir, '/v1/status')) as Status,
    programmed: createProgrammed(instance),
  };
}

function found<T>(thing: T | undefined, name: string): T {
  if (thing === undefined) throw new Error(`this node has no ${name}`);
  return thing;
}
