// SPDX-License-Identifier: Apache-2.0
// A cluster for direct return: n1, which clients reach, n2 and n3, each with an agent and one server, and a machine outside that
// routes the Services' addresses to n1. All four are on one wire.

import { ipBatch } from '../../../src/sys/netns.ts';
import type { Agent } from '../../../tools/lab/agent.ts';
import { type Endpoint, endpointSlices, type Manifest } from '../../../tools/lab/manifests.ts';
import { type Client, startClient } from '../../../tools/lab/traffic.ts';
import { type Pod, podCidrs } from '../../../tools/lab/wiring.ts';
import { svc } from '../builders.ts';
import { startNodes, type TestNode, type TestNodes } from '../node.ts';

export const VIPS = ['203.0.113.10', '2001:db8:77::10'] as const;
/** Of the machine outside, in the order of VIPS. */
export const OUTSIDE = ['192.168.77.4', 'fd00:77::4'] as const;
/** Of n1: what a masqueraded client is seen as. */
export const BALANCER = ['192.168.77.1', 'fd00:77::1'] as const;
export const PORTS = { TCP: 80, UDP: 53 } as const;
const SERVER = { TCP: 8080, UDP: 5353 } as const;
const NAMES = { TCP: 'web', UDP: 'dns' } as const;

type Transport = keyof typeof PORTS;

export interface DirectCluster {
  readonly nodes: readonly TestNode[];
  readonly servers: readonly Pod[];
  /** Where `outside` is. */
  readonly machine: TestNode;
  readonly outside: Client;
  /** Writes the Services to all nodes, and waits for programmed(). */
  serve(options?: Serving): Promise<void>;
  /** Writes the Nodes, those named with the annotation, as all nodes see them or some. */
  writeNodes(willing: readonly string[], view?: NodesView): void;
  /** Until all that was written is programmed on every node. */
  programmed(): Promise<void>;
  /** Its agent stops, and another one starts. */
  restart(index: number): Promise<void>;
  stop(): Promise<void>;
}

export interface NodesView {
  readonly seenBy?: readonly TestNode[];
  /** The name of a Node that is not there. */
  readonly without?: string;
}

export interface Serving {
  readonly forwarding?: 'snat' | 'dsr' | 'hybrid' | 'ipip';
  /** Default: all servers. */
  readonly endpoints?: readonly Endpoint[];
  /** Default: all nodes. */
  readonly seenBy?: readonly TestNode[];
}

export interface DirectOptions {
  /** Of the agents, or of that of a node. */
  readonly flags?: readonly string[] | ((node: TestNode) => readonly string[]);
  /** Nodes that have the annotation at first; default: all. */
  readonly willing?: readonly string[];
  /** Before agents start. */
  readonly prepare?: (all: TestNodes) => Promise<void>;
}

export async function startDirectCluster({
  flags = [],
  willing = ['n1', 'n2', 'n3'],
  prepare,
}: DirectOptions = {}): Promise<DirectCluster> {
  const all: TestNodes = await startNodes([
    { name: 'n1', servers: ['s1'], clients: [] },
    { name: 'n2', servers: ['s2'], clients: [] },
    { name: 'n3', servers: ['s3'], clients: [] },
    { name: 'outside', servers: [], clients: [] },
  ]);
  await prepare?.(all);
  const nodes = all.nodes.slice(0, 3);
  const flagsOf = typeof flags === 'function' ? flags : () => flags;
  const machine = all.nodes[3]!;
  await ipBatch(
    VIPS.map((vip, family) => `route add ${vip} via ${BALANCER[family]}`),
    machine.self.namespace,
  );
  const servers = nodes.flatMap((node) => node.servers);
  const writeNodes: DirectCluster['writeNodes'] = (those, { seenBy = nodes, without } = {}) => {
    const objects = nodes
      .map(({ self }, at) => nodeObject(self.name, at + 1, those))
      .filter((_object, at) => nodes[at]?.self.name !== without);
    for (const { manifests } of seenBy) manifests.put('nodes.yaml', objects);
  };
  const programmed: DirectCluster['programmed'] = async () => {
    await Promise.all(nodes.map((node) => node.programmed()));
  };
  const serve: DirectCluster['serve'] = async (options = {}) => {
    const { forwarding = 'dsr', endpoints, seenBy = nodes } = options;
    const behind = endpoints ?? servers.map((pod) => ({ pod }));
    for (const { manifests } of seenBy) {
      for (const transport of ['TCP', 'UDP'] as const) {
        manifests.put(`${transport}.yaml`, balancerOf(transport, { forwarding }, behind));
      }
    }
    await programmed();
  };
  writeNodes(willing);
  const outside = await startClient(machine.self);
  const agents: Agent[] = await Promise.all(nodes.map((node) => node.startAgent(flagsOf(node))));
  return {
    ...{ nodes, servers, machine, outside, serve, writeNodes, programmed },
    restart: async (index) => {
      await agents[index]!.stop();
      agents[index] = await nodes[index]!.startAgent(flagsOf(nodes[index]!));
    },
    stop: async () => {
      await Promise.all(agents.map((agent) => agent.stop()));
      all.remove();
    },
  };
}

/** @param index of the node on its wire, from 1 */
export function nodeObject(name: string, index: number, willing: readonly string[]): Manifest {
  const annotations = willing.includes(name) ? { 'fairlead.io/direct-return': 'geneve/1' } : {};
  return {
    ...{ apiVersion: 'v1', kind: 'Node', metadata: { name, annotations } },
    spec: { podCIDRs: podCidrs(index) },
    status: {
      addresses: [`192.168.77.${index}`, `fd00:77::${index}`].map((address) => ({
        type: 'InternalIP',
        address,
      })),
    },
  };
}

/** A Service with the addresses VIPS and these annotations, without `fairlead.io/`. */
export function balancerOf(
  transport: Transport,
  wanted: Readonly<Record<string, string>>,
  endpoints: readonly Endpoint[],
): readonly Manifest[] {
  const name = NAMES[transport];
  const spec = { n: transport === 'TCP' ? 10 : 11, port: PORTS[transport], protocol: transport };
  const base = svc(name, { ...spec, targetPort: SERVER[transport] });
  const annotations = Object.fromEntries(
    Object.entries(wanted).map(([key, value]) => [`fairlead.io/${key}`, value]),
  );
  const balancer = {
    ...base,
    metadata: { name, namespace: 'default', annotations },
    spec: { ...(base['spec'] as object), type: 'LoadBalancer' },
    status: { loadBalancer: { ingress: VIPS.map((ip) => ({ ip })) } },
  };
  const port = { name: 'main', port: SERVER[transport], protocol: transport };
  return [balancer, ...endpointSlices(name, port, endpoints)];
}
