// SPDX-License-Identifier: Apache-2.0
// Three nodes in three zones, an agent on each, one control plane: the environment of the usage tests. `right`
// waits until every agent shows what `buildAll` computes for its node from a fresh list of the API's objects,
// and until its kernel holds exactly that.

import { bpfCapabilities } from '../../../../src/engines/capabilities.ts';
import { type ServiceRow, serviceRows } from '../../../../src/observe/service-rows.ts';
import type { Answer, Target } from '../../../../tools/lab/client/protocol.ts';
import type { Pod } from '../../../../tools/lab/wiring.ts';
import { askAgent } from '../../../support/fixture/proxies/ask-agent.ts';
import { startNodes, type TestNode, type TestNodes } from '../../../support/node.ts';
import { until } from '../../../support/until.ts';
import { type ClusterAgent, startClusterAgent } from '../agent/agent.ts';
import { type ControlPlane, startControlPlane } from '../control-plane/control-plane.ts';
import { listObjects, POD_RANGES, planOf } from '../histories/oracle.ts';
import type { Api } from '../objects/api.ts';
import { addNode, addPod } from '../objects/objects.ts';
import type { Binaries } from '../programs/binaries.ts';

export interface FleetNode {
  readonly name: string;
  /** InternalIPs. */
  readonly ipv4: string;
  readonly ipv6: string;
  readonly zone: string;
  readonly node: TestNode;
  readonly agent: ClusterAgent;
  /** Results of connections from a pod of this node: names of the pods that answered and error codes, sorted. */
  reached(target: Target, connections?: number): Promise<string[]>;
  once(target: Target): Promise<Answer>;
}

/** `wanted` sees what the API means on a node; with numbers: backends of each frontend of a Service. */
export type Wanted = Readonly<Record<string, number>> | ((rows: Rows, node: string) => boolean);
export type Rows = readonly ServiceRow[];

export interface Fleet {
  readonly plane: ControlPlane;
  readonly nodes: readonly FleetNode[];
  node(name: string): FleetNode;
  /** Waits until the API's objects mean `wanted` and all agents and kernels hold exactly that. */
  right(wanted: Wanted): Promise<void>;
  /** A Pod object for a pod that runs. */
  addPod(pod: Pod, labels: Readonly<Record<string, string>>, namespace?: string): Promise<void>;
  pod(name: string): Pod;
  kubectl(...args: readonly string[]): Promise<string>;
  apply(manifest: object): Promise<string>;
  clusterIps(service: string, namespace?: string): Promise<readonly string[]>;
  remove(): Promise<void>;
}

/** Node `nX` has the servers `pX-1`, `pX-2` … and a client; its zone is a, b or c. */
export async function startFleet(binaries: Binaries, serversPerNode: number): Promise<Fleet> {
  const plane = await startControlPlane(binaries);
  let running: TestNodes | undefined;
  const agents: ClusterAgent[] = [];
  const remove = async (): Promise<void> => {
    await Promise.all(agents.map((agent) => agent.stop()));
    running?.remove();
    await plane.remove();
  };
  try {
    running = await startNodes(
      [1, 2, 3].map((index) => ({
        name: `n${index}`,
        servers: Array.from({ length: serversPerNode }, (_, server) => `p${index}-${server + 1}`),
        clients: [`c${index}`],
      })),
    );
    const nodes: FleetNode[] = [];
    for (const node of running.nodes) {
      const started = await startFleetNode(plane, running, node);
      nodes.push(started);
      agents.push(started.agent);
    }
    return asFleet(plane, nodes, remove);
  } catch (error) {
    await remove();
    throw error;
  }
}

async function startFleetNode(
  plane: ControlPlane,
  { topology }: TestNodes,
  node: TestNode,
): Promise<FleetNode> {
  const name = node.instance.nodeName;
  const host = topology.nodes.find((candidate) => candidate.name === name)!;
  const zone = 'abc'[host.index - 1]!;
  const [ipv4, ipv6] = [`192.168.77.${host.index}`, `fd00:77::${host.index}`];
  await plane.connect(host);
  await addNode(plane.api, { name, addresses: [ipv4, ipv6], zone });
  const flags = ['--cluster-cidr', POD_RANGES];
  const agent = await startClusterAgent(plane, node, { identity: 'proxy', flags });
  return {
    ...{ name, ipv4, ipv6, zone, node, agent },
    reached: async (target, connections = 60) => {
      const { hits, failures } = await node.client().burst(target, { connections });
      return [...Object.keys(hits), ...Object.keys(failures)].sort();
    },
    once: (target) => node.client().once(target),
  };
}

function asFleet(
  plane: ControlPlane,
  nodes: readonly FleetNode[],
  remove: () => Promise<void>,
): Fleet {
  const pods = nodes.flatMap(({ node }) => node.servers);
  const kubectl = (...args: readonly string[]): Promise<string> => plane.kubectl(args);
  return {
    ...{ plane, nodes, remove, kubectl },
    node: (name) => nodes.find((node) => node.name === name)!,
    right: async (wanted) => {
      await until(() => isRight(plane.api, nodes, wanted), {
        what: 'all agents to be right',
        timeoutMs: 90_000,
      });
    },
    addPod: async (pod, labels, namespace = 'default') => {
      const { name, nodeName, ipv4, ipv6 } = pod;
      await addPod(plane.api, { name, nodeName, ips: [ipv4, ipv6], labels, namespace });
    },
    pod: (name) => pods.find((pod) => pod.name === name)!,
    apply: (manifest) => plane.kubectl(['apply', '-f', '-'], JSON.stringify(manifest)),
    clusterIps: async (service, namespace = 'default') => {
      const path = `/api/v1/namespaces/${namespace}/services/${service}`;
      const { spec } = await plane.api.get<{ spec: { clusterIPs?: string[] } }>(path);
      return spec.clusterIPs ?? [];
    },
  };
}

/** Throws the difference; false while the API's objects do not mean `wanted` yet. */
async function isRight(api: Api, nodes: readonly FleetNode[], wanted: Wanted): Promise<boolean> {
  const objects = await listObjects(api);
  for (const { name, node } of nodes) {
    const meant = serviceRows(planOf(objects, name), [], [bpfCapabilities({ packets: true })]);
    if (!isWanted(meant, name, wanted)) {
      throw new Error(
        `the objects of the API mean something else on ${name}: ${texts(meant).join('\n')}`,
      );
    }
    const shown = (await askAgent(node.instance.runDir, '/v1/services')) as Rows;
    const difference = differences(texts(meant), texts(shown));
    if (difference.length > 0) throw new Error(`${name}:\n${difference.join('\n')}`);
    const wrong = shown.filter((row) => row.kernelState !== 'ok' || !isSameSet(row));
    if (wrong.length > 0) throw new Error(`${name}: the kernel differs: ${JSON.stringify(wrong)}`);
  }
  return true;
}

function isWanted(rows: Rows, node: string, wanted: Wanted): boolean {
  if (typeof wanted === 'function') return wanted(rows, node);
  return Object.entries(wanted).every(([name, count]) => {
    const own = rows.filter((row) => row.name === name);
    return own.length > 0 && own.every(({ desired }) => desired?.length === count);
  });
}

const texts = (rows: Rows): string[] =>
  rows.map(({ namespace, name, port, type, kind, frontend, family, affinitySeconds, desired }) =>
    [
      ...[`${namespace}/${name}:${port}`, type, kind, frontend, family, affinitySeconds],
      desired?.toSorted().join(),
    ].join(' '),
  );

function differences(meant: readonly string[], shown: readonly string[]): string[] {
  return [
    ...meant.filter((row) => !shown.includes(row)).map((row) => `- ${row}`),
    ...shown.filter((row) => !meant.includes(row)).map((row) => `+ ${row}`),
  ];
}

const isSameSet = ({ desired, kernel }: ServiceRow): boolean =>
  desired?.toSorted().join() === kernel?.toSorted().join();
