// SPDX-License-Identifier: Apache-2.0
// The environment that demo, tests and benchmarks share: nodes and pods as network namespaces and
// cgroups of this machine. Builds them and removes them, also when the process is interrupted or fails.
// Generates no traffic.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { findCgroup2, makeCgroup } from '../../src/sys/cgroup.ts';
import { addNamespaces, ipBatch, writeSysctls } from '../../src/sys/netns.ts';
import { recordOwnership, removeOwned } from './ownership.ts';
import {
  NODE_SYSCTLS,
  type NodeHost,
  nodeAddresses,
  nodeLines,
  POD_SYSCTLS,
  type Pod,
  podAddresses,
  podLines,
  uplinkLines,
  wireLines,
} from './wiring.ts';

export interface NodeSpec {
  readonly name: string;
  readonly pods: readonly string[];
}

export interface Topology {
  readonly prefix: string;
  /** For files, sockets and mounts of this topology; removed with it. */
  readonly directory: string;
  /** For programs that belong to no pod, such as agents. */
  readonly toolsCgroup: string;
  readonly nodes: readonly NodeHost[];
  /** Removes all of it; may be called again. Throws if a part cannot be removed. */
  remove(): void;
}

/** Builds a topology that is removed when this process ends. Removes what it made if it fails. */
export async function buildTopology(specs: readonly NodeSpec[]): Promise<Topology> {
  const cgroupMount = findCgroup2();
  if (cgroupMount === undefined) throw new Error('no cgroup v2 hierarchy is mounted');
  const ownership = recordOwnership(cgroupMount);
  const { prefix, directory, cgroup } = ownership;
  const onExit = (): void => removeOwned(ownership);
  process.on('exit', onExit);
  const nodes = specs.map((spec, index) => placeNode(spec, index + 1, prefix, cgroup));
  const toolsCgroup = join(cgroup, 'tools');
  const remove = (): void => {
    removeOwned(ownership);
    process.off('exit', onExit);
  };
  try {
    for (const path of [toolsCgroup, ...nodes.flatMap(cgroupsOf)]) makeCgroup(path);
    for (const { name } of nodes) mkdirSync(join(directory, name));
    await wire(prefix, nodes);
  } catch (error) {
    remove();
    throw error;
  }
  return { prefix, directory, toolsCgroup, nodes, remove };
}

/** Exits on SIGINT, SIGTERM and SIGHUP in the way that runs exit handlers, until the returned call. */
export function exitOnSignals(): () => void {
  const ends = Object.entries({ SIGHUP: 129, SIGINT: 130, SIGTERM: 143 }).map(([signal, code]) => {
    const end = (): void => process.exit(code);
    process.once(signal, end);
    return () => process.off(signal, end);
  });
  return () => {
    for (const undo of ends) undo();
  };
}

function placeNode(spec: NodeSpec, index: number, prefix: string, root: string): NodeHost {
  const namespace = `${prefix}-${spec.name}`;
  const cgroup = join(root, spec.name);
  const pods = spec.pods.map((name, podIndex) => ({
    name,
    nodeName: spec.name,
    namespace: `${namespace}-${name}`,
    cgroup: join(cgroup, `pod-${name}`),
    ...podAddresses(index, podIndex),
  }));
  return { name: spec.name, index, namespace, cgroup, ...nodeAddresses(index), pods };
}

/** A cgroup with children may still hold processes of the host: nothing in our subtree has controllers. */
function cgroupsOf(node: NodeHost): string[] {
  return [node.cgroup, ...node.pods.map(({ cgroup }) => cgroup)];
}

async function wire(prefix: string, nodes: readonly NodeHost[]): Promise<void> {
  const wireNamespace = nodes.length > 1 ? [`${prefix}-wire`] : [];
  const pods: Pod[] = nodes.flatMap((node) => node.pods);
  addNamespaces([...nodes, ...pods].map(({ namespace }) => namespace).concat(wireNamespace));
  await Promise.all([
    ...nodes.map(({ namespace }) => writeSysctls(namespace, NODE_SYSCTLS)),
    ...pods.map(({ namespace }) => writeSysctls(namespace, POD_SYSCTLS)),
    ...wireNamespace.map((name) => ipBatch(wireLines(nodes), name)),
  ]);
  await Promise.all(nodes.map((node) => wireNode(node, nodes)));
}

async function wireNode(node: NodeHost, nodes: readonly NodeHost[]): Promise<void> {
  const uplink = nodes.length > 1 ? uplinkLines(node, nodes) : [];
  await ipBatch([...nodeLines(node), ...uplink], node.namespace);
  await Promise.all(node.pods.map((pod) => ipBatch(podLines(pod, node), pod.namespace)));
}
