// SPDX-License-Identifier: Apache-2.0
// A cluster of real nodes: a control plane with every controller and a scheduler, and nodes that register themselves. Nothing serves
// Services yet.
import { addNamespaces, ipBatch } from '../../../../src/sys/netns.ts';
import { until } from '../../../support/until.ts';
import { type ControlPlane, startControlPlane } from '../../cluster/control-plane/control-plane.ts';
import type { Binaries } from '../../cluster/programs/binaries.ts';
import { startProgram } from '../../cluster/programs/program.ts';
import type { NodePrograms } from '../programs.ts';
import { type RealNode, startNode } from './node.ts';
import { nodeAddress, podRanges } from './settings.ts';

const READY_MS = 180_000;

export interface RealCluster {
  readonly plane: ControlPlane;
  readonly nodes: readonly RealNode[];
  /** A network namespace beside the nodes, with routes to their pods: clients outside the cluster. */
  readonly outside: string;
  readonly programs: NodePrograms;
  remove(): Promise<void>;
}

export interface NodesOptions {
  /** `later`: the nodes are registered and not Ready. */
  readonly network?: 'later';
}

/** Resolves when all nodes are Ready. Removes what it made if it fails. */
export async function startNodes(
  binaries: Binaries,
  programs: NodePrograms,
  names: readonly string[],
  { network }: NodesOptions = {},
): Promise<RealCluster> {
  const plane = await startControlPlane(binaries, {
    controllers: 'all',
    apiServerFlags: ['--kubelet-preferred-address-types=InternalIP'],
  });
  try {
    startScheduler(plane, programs.scheduler);
    const nodes = await Promise.all(
      names.map((name, at) => startNode(plane, programs, name, at + 1)),
    );
    await Promise.all(nodes.map((node) => addRoutes(node, nodes)));
    await Promise.all(nodes.map((node) => node.importImage(programs.images.pod)));
    await Promise.all(nodes.map((node) => registerNode(plane, node)));
    if (network !== 'later') await addNetworks(plane, nodes);
    const outside = await addOutside(plane, nodes.length + 1);
    return { plane, nodes, outside, programs, remove: () => plane.remove() };
  } catch (error) {
    await plane.remove();
    throw error;
  }
}

function startScheduler(plane: ControlPlane, binary: string): void {
  const kubeconfig = plane.kubeconfig({ identity: 'admin', from: 'node' });
  startProgram(plane.sandbox('plane', plane.namespace), 'kube-scheduler', [
    binary,
    `--kubeconfig=${kubeconfig}`,
    '--leader-elect=false',
    '--bind-address=127.0.0.1',
  ]);
}

/** What a cloud's route controller does: each node reaches the pods of the others. */
async function addRoutes(node: RealNode, nodes: readonly RealNode[]): Promise<void> {
  const others = nodes.filter(({ index }) => index !== node.index);
  const lines = others.flatMap(({ index }) => {
    const [ipv4, ipv6] = podRanges(index);
    return [
      `route add ${ipv4} via ${nodeAddress(index)}`,
      `route add ${ipv6} via fd00:78::${index}`,
    ];
  });
  await ipBatch([...lines, 'route add default via 192.168.78.250'], node.namespace);
}

/** Gives the nodes their CNI plugin and waits until they are Ready. */
export async function addNetworks(plane: ControlPlane, nodes: readonly RealNode[]): Promise<void> {
  await Promise.all(
    nodes.map(async (node) => {
      await node.addNetwork();
      await untilNodeReady(plane, node);
    }),
  );
}

/** As the node controller does: a range of addresses for pods. */
async function registerNode(
  plane: ControlPlane,
  { name, index, kubelet }: RealNode,
): Promise<void> {
  const podCIDRs = podRanges(index);
  const spec = { podCIDR: podCIDRs[0], podCIDRs };
  const isThere = async (): Promise<boolean> =>
    (await plane.kubectl(['patch', 'node', name, '-p', JSON.stringify({ spec })])) !== '';
  await until(isThere, { what: `node ${name}`, timeoutMs: READY_MS }).catch((cause: unknown) => {
    throw new Error(kubelet.tail(40), { cause });
  });
}

async function untilNodeReady(plane: ControlPlane, node: RealNode): Promise<void> {
  const isReady = async (): Promise<boolean> => {
    const path = "jsonpath={.status.conditions[?(@.type=='Ready')].status}";
    return (await plane.kubectl(['get', 'node', node.name, '-o', path])) === 'True';
  };
  await until(isReady, { what: `node ${node.name} is Ready`, timeoutMs: READY_MS }).catch(
    (cause: unknown) => {
      throw new Error(`${node.name}:\n${node.containerd.tail()}\n${node.kubelet.tail(40)}`, {
        cause,
      });
    },
  );
}

async function addOutside(plane: ControlPlane, index: number): Promise<string> {
  const namespace = `${plane.prefix}-outside`;
  addNamespaces([namespace]);
  await plane.connect({ namespace, index });
  const routes = Array.from({ length: index - 1 }, (_, at) => podRanges(at + 1)[0]).map(
    (range, at) => `route add ${range} via ${nodeAddress(at + 1)}`,
  );
  await ipBatch(['link set lo up', ...routes], namespace);
  return namespace;
}
