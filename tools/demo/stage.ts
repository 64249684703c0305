// SPDX-License-Identifier: Apache-2.0
// The environment of the phases: one node, its pods with their programs, the agent and the screen.

import type { Child } from '../../src/sys/exec.ts';
import { type Agent, type Instance, makeInstance, startAgent } from '../lab/agent.ts';
import type { LoadReport, Target } from '../lab/client/protocol.ts';
import { nodeManifest } from '../lab/manifests.ts';
import { startServer } from '../lab/sandbox.ts';
import { buildTopology, type Topology } from '../lab/topology.ts';
import { type Client, type RunningLoad, startClient } from '../lab/traffic.ts';
import type { Pod } from '../lab/wiring.ts';
import type { Screen } from './screen.ts';
import {
  CLIENT_PODS,
  DNS_PODS,
  type Examples,
  putEndpoints,
  readExamples,
  type ServiceName,
  serverPorts,
  WEB_PODS,
} from './services.ts';

/** The result of one phase; `facts` are for --json. */
export interface PhaseResult {
  readonly name: string;
  readonly isOk: boolean;
  readonly connections: number;
  readonly failures: number;
  readonly facts: Readonly<Record<string, unknown>>;
}

export interface Stage {
  readonly screen: Screen;
  readonly topology: Topology;
  readonly instance: Instance;
  readonly examples: Examples;
  readonly clients: readonly Client[];
  /** By pod name; phases that kill one replace it here. */
  readonly servers: Map<string, Child>;
  /** The phase that kills the agent replaces it here. */
  agent: Agent;
}

/** Builds everything; the caller must remove the topology, even after a failure. */
export async function setStage(screen: Screen, topology: Topology): Promise<Stage> {
  const examples = readExamples();
  const node = topology.nodes[0];
  if (node === undefined) throw new Error('the demo needs a node');
  const servers = node.pods.filter(({ name }) => !CLIENT_PODS.includes(name));
  const sandboxes = node.pods.filter(({ name }) => CLIENT_PODS.includes(name));
  const [instance, started, clients] = await Promise.all([
    makeInstance(topology, node),
    Promise.all(servers.map((pod) => startServer(pod, serverPorts(examples)))),
    Promise.all(sandboxes.map((pod) => startClient(pod))),
  ]);
  instance.manifests.put('node.yaml', [nodeManifest(node)]);
  instance.manifests.put('services.yaml', examples.manifests);
  const byName = new Map(started.map((child, index) => [servers[index]?.name ?? '', child]));
  const put = (service: ServiceName, names: readonly string[]): void => {
    const pods = servers.filter(({ name }) => names.includes(name));
    putEndpoints(instance, examples, { service, endpoints: pods.map((pod) => ({ pod })) });
  };
  put('web', WEB_PODS.slice(0, 5));
  put('cart', WEB_PODS.slice(0, 5));
  put('dns', DNS_PODS);
  const agent = await startAgent(instance);
  return { screen, topology, instance, examples, clients, servers: byName, agent };
}

export function buildDemoTopology(): Promise<Topology> {
  return buildTopology([{ name: 'n1', pods: [...CLIENT_PODS, ...WEB_PODS, ...DNS_PODS] }]);
}

export function podsNamed(stage: Stage, names: readonly string[]): Pod[] {
  const pods = stage.topology.nodes.flatMap((node) => node.pods);
  return names.flatMap((name) => pods.filter((pod) => pod.name === name));
}

export function serviceTarget(
  { examples }: Stage,
  service: ServiceName,
  family: 'IPv4' | 'IPv6' = 'IPv4',
): Target {
  const { clusterIps, port, slicePort } = examples.services[service];
  const address = clusterIps.find((ip) => ip.includes(':') === (family === 'IPv6'));
  if (address === undefined) throw new Error(`Service ${service} has no ${family} address`);
  return { protocol: slicePort.protocol, address, port };
}

export function mainClient(stage: Stage): Client {
  const [client] = stage.clients;
  if (client === undefined) throw new Error('the demo needs a client');
  return client;
}

const POLL_INTERVAL_MS = 20;

/** Reads a running load until it satisfies `isEnough`, or until `timeoutMs` is over: then undefined. */
export async function awaitLoad(
  load: RunningLoad,
  isEnough: (report: LoadReport) => boolean,
  timeoutMs = 90_000,
): Promise<LoadReport | undefined> {
  const deadlineMs = performance.now() + timeoutMs;
  while (performance.now() < deadlineMs) {
    const report = await load.read();
    if (isEnough(report)) return report;
    await new Promise((resolve) => setTimeout(resolve, POLL_INTERVAL_MS));
  }
  return undefined;
}

/** Waits until a load has made this many more connections; undefined on timeout. */
export async function awaitMore(
  load: RunningLoad,
  connections: number,
): Promise<LoadReport | undefined> {
  const before = await load.read();
  return awaitLoad(load, (report) => report.connections >= before.connections + connections);
}

/**
 * Of the reports of a load, one after the other: true once others have answered `answers` times since the last answer of
 * any of these. No length of time would tell: on a machine with other work nobody answers for a while.
 */
export function quietAfter(
  pods: readonly string[],
  answers: number,
): (report: LoadReport) => boolean {
  let [own, before] = [-1, 0];
  return ({ hits }) => {
    const countOf = (isOne: boolean): number =>
      Object.entries(hits)
        .filter(([pod]) => pods.includes(pod) === isOne)
        .reduce((sum, [, { count }]) => sum + count, 0);
    const others = countOf(false);
    if (countOf(true) !== own) [own, before] = [countOf(true), others];
    return others - before >= answers;
  };
}
