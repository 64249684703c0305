// SPDX-License-Identifier: Apache-2.0
// What every fault test needs: a control plane behind a faulty server, a node with two pods behind Service
// `web`, traffic to it, and an agent whose desired and programmed state can be read.
import type { V1EndpointSlice, V1Service } from '@kubernetes/client-node';
import { expect } from 'vitest';
import type { ServiceRow } from '../../../../src/observe/service-rows.ts';
import type { ClusterStatus } from '../../../../src/source/apiserver/cluster.ts';
import { ownPaths } from '../../../../tools/lab/agent.ts';
import type { RunningLoad } from '../../../../tools/lab/traffic.ts';
import { askAgent } from '../../../support/fixture/proxies/ask-agent.ts';
import { startOneNode, type TestNode } from '../../../support/node.ts';
import { untilHolds } from '../../../support/until.ts';
import { type Launched, launch } from '../agent/launch.ts';
import { type ControlPlane, startControlPlane } from '../control-plane/control-plane.ts';
import type { Api, ListOf } from '../objects/api.ts';
import {
  addNode,
  addPod,
  addService,
  type NodeSpec,
  servicesPath,
  slicesPath,
} from '../objects/objects.ts';
import type { Binaries } from '../programs/binaries.ts';
import { type ClockOptions, type FakeClock, makeClock } from '../programs/clock.ts';
import { type FaultyServer, ONLY_FAULTY_SERVER, startFaultyServer } from './faulty-server.ts';

export interface AgentOptions {
  /** Default: user `system:kube-proxy` with a token that does not expire. */
  readonly kubeconfig?: string;
  /** Default: the clock of the stage. */
  readonly clock?: FakeClock;
}

export interface FaultStage {
  readonly plane: ControlPlane;
  readonly node: TestNode;
  readonly server: FaultyServer;
  /** The log of the running agent. */
  readonly log: readonly string[];
  /** The clock of the agents. */
  readonly clock: FakeClock;
  /** Stops the previous agent; resolves when the new one's initial sync is done. */
  startAgent(options?: AgentOptions): Promise<void>;
  startTraffic(): Promise<void>;
  /** Waits for this many more connections. */
  traffic(more: number): Promise<void>;
  /** Fails if a request has failed since the start of the traffic. */
  endTraffic(): Promise<void>;
  status(): Promise<ClusterStatus>;
  /** Frontends desired and programmed. */
  rows(): Promise<readonly ServiceRow[]>;
  /** Names of the programmed Services of namespace default, without `kubernetes`. */
  inKernel(): Promise<string[]>;
  /** Waits until a change made through the API is programmed. */
  follows(name: string, timeoutMs?: number): Promise<void>;
  remove(): Promise<void>;
}

/** The only node. */
export const NODE: NodeSpec = { name: 'n1', addresses: ['192.168.77.1'], zone: 'a' };

export async function startFaultStage(
  binaries: Binaries,
  clockOptions: ClockOptions = {},
): Promise<FaultStage> {
  const plane = await startControlPlane(binaries, { apiServerFlags: ONLY_FAULTY_SERVER });
  const node = await startOneNode(['web-1', 'web-2']);
  await plane.connect({ namespace: node.instance.sandbox.namespace, index: 1 });
  await addNode(plane.api, NODE);
  await addWeb(plane, node);
  const server = await startFaultyServer(plane);
  const clock = await makeClock(clockOptions);
  const rows = async () => (await askAgent(node.instance.runDir, '/v1/services')) as ServiceRow[];
  const inKernel = async (): Promise<string[]> => {
    const served = (await rows()).filter(({ kernelState }) => kernelState === 'ok');
    return served.map(({ name }) => name).filter((name) => name !== 'kubernetes');
  };
  const agents = new Agents({ plane, node, server, clock });
  return {
    ...{ plane, node, server, clock, rows, inKernel },
    ...trafficTo(plane, node),
    get log() {
      return agents.log;
    },
    status: async () => (await node.status()).source.cluster!,
    startAgent: (options = {}) => agents.start(options),
    follows: async (name, timeoutMs = 60_000) => {
      await addService(plane.api, name, {});
      await untilHolds(async () => expect(await inKernel()).toContain(name), timeoutMs);
    },
    remove: async () => {
      await agents.stop();
      await server.close();
      clock.remove();
      node.remove();
      await plane.remove();
    },
  };
}

/** Service `web` and its two pods; resolves when its slice has both, as an agent is ready without it. */
export async function addWeb(
  { api }: ControlPlane,
  node: TestNode,
  spec: V1Service['spec'] = {},
): Promise<void> {
  const labels = { app: 'web' };
  for (const { name, ipv4, ipv6 } of node.pods('web-1', 'web-2')) {
    await addPod(api, { name, nodeName: 'n1', ips: [ipv4, ipv6], labels });
  }
  await addService(api, 'web', { selector: labels, ...spec });
  await untilHolds(async () => expect(await slicesOfWeb(api)).toHaveLength(2), 60_000);
}

/** Pod addresses. */
async function slicesOfWeb(api: Api): Promise<readonly string[]> {
  const query = '?labelSelector=kubernetes.io/service-name%3Dweb';
  const { items } = await api.get<ListOf<V1EndpointSlice>>(`${slicesPath()}${query}`);
  return items.flatMap(({ endpoints }) => endpoints ?? []).flatMap(({ addresses }) => addresses);
}

function trafficTo(
  plane: ControlPlane,
  node: TestNode,
): Pick<FaultStage, 'startTraffic' | 'traffic' | 'endTraffic'> {
  let load: RunningLoad | undefined;
  return {
    startTraffic: async () => {
      const service = await plane.api.get<{ spec: { clusterIP: string } }>(`${servicesPath()}/web`);
      const target = { protocol: 'TCP', address: service.spec.clusterIP, port: 80 } as const;
      load = await node.client().startLoad(target);
    },
    traffic: async (more) => {
      const before = (await load!.read()).connections;
      await untilHolds(async () => {
        expect((await load!.read()).connections).toBeGreaterThan(before + more);
      });
    },
    endTraffic: async () => {
      await untilHolds(async () => expect((await load!.read()).connections).toBeGreaterThan(50));
      expect((await load!.stop()).failures).toEqual([]);
    },
  };
}

/** Runs one agent at a time. */
class Agents {
  readonly #stage: Pick<FaultStage, 'plane' | 'node' | 'server' | 'clock'>;
  #running: Launched | undefined;

  constructor(stage: Pick<FaultStage, 'plane' | 'node' | 'server' | 'clock'>) {
    this.#stage = stage;
  }

  get log(): readonly string[] {
    return this.#running?.log ?? [];
  }

  async start(options: AgentOptions): Promise<void> {
    await this.stop();
    const { plane, node, server, clock: usual } = this.#stage;
    const { kubeconfig = plane.kubeconfig({ identity: 'proxy', from: 'node' }) } = options;
    const { clock = usual } = options;
    const { instance } = node;
    const args = [
      ...['run', '--kubeconfig', kubeconfig, '--api-server', server.url],
      ...['--hostname-override', instance.nodeName, '--cgroup-root', instance.cgroupRoot],
      ...ownPaths(instance),
    ];
    this.#running = launch(node, args, clock.runner);
    await this.#running.said('"msg":"ready"');
  }

  async stop(): Promise<void> {
    await this.#running?.stop();
    this.#running = undefined;
  }
}
