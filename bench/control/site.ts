// SPDX-License-Identifier: Apache-2.0
// The environment of one size: a loaded control plane, one node for each proxy, and one more whose two pods are the
// real backends of the probe Services. All other Services have fictitious endpoints.

import {
  type ControlPlane,
  startControlPlane,
} from '../../test/integration/cluster/control-plane/control-plane.ts';
import { sendServicesToNode } from '../../test/integration/cluster/control-plane/network.ts';
import { load, serviceName } from '../../test/integration/cluster/objects/load.ts';
import { addNode, servicesPath } from '../../test/integration/cluster/objects/objects.ts';
import type { Binaries } from '../../test/integration/cluster/programs/binaries.ts';
import { buildTopology, type Topology } from '../../tools/lab/topology.ts';
import type { NodeHost } from '../../tools/lab/wiring.ts';
import { type Changer, startChanger } from './changes/changes.ts';
import { startGreeter } from './changes/prober.ts';
import type { ProxyName, Variant } from './report/figures.ts';

/** Not its defaults. From 1.34 on no flag makes it give addresses without counting all it gave: 10,000 Services load in four minutes. */
export const API_SERVER_FLAGS: readonly string[] = [];
export const ENDPOINTS_EACH = 10;
export const TARGET_PORT = 8080;
const MAX_PROBES = 20;

export interface ProbeService {
  readonly number: number;
  readonly clusterIp: string;
}

/** Pods that answer, by the letter they answer with. */
export type Backends = Readonly<Record<'a' | 'b', string>>;

/** A proxy has a node of its own in each round: nothing is left there by an earlier one. */
export interface Seat {
  readonly proxy: ProxyName;
  readonly round: number;
}

export const seatName = ({ proxy, round }: Seat): string => `${proxy}-${round}`;

export interface Site {
  readonly plane: ControlPlane;
  readonly topology: Topology;
  readonly changer: Changer;
  readonly services: number;
  readonly loadSeconds: number;
  readonly probes: readonly ProbeService[];
  readonly backends: Backends;
  /** Of the tools of all proxies that use iptables. */
  readonly variant: Variant;
  nodeOf(seat: Seat): NodeHost;
  remove(): Promise<void>;
}

export interface SiteSpec {
  readonly binaries: Binaries;
  readonly services: number;
  readonly proxies: readonly ProxyName[];
  readonly rounds: number;
  readonly variant: Variant;
}

export async function openSite(spec: SiteSpec): Promise<Site> {
  const { binaries, services, variant } = spec;
  const plane = await startControlPlane(binaries, {
    apiServerFlags: API_SERVER_FLAGS,
    controllers: 'none',
  });
  let topology: Topology | undefined;
  const remove = async (): Promise<void> => {
    topology?.remove();
    await plane.remove();
  };
  try {
    topology = await buildTopology([
      ...seatsOf(spec).map((seat) => ({ name: seatName(seat), pods: ['client'] })),
      { name: 'backends', pods: ['a', 'b'] },
    ]);
    const backends = await startBackends(topology);
    const nodes = topology.nodes.slice(0, -1);
    for (const node of nodes) await connectNode(plane, node);
    const loaded = await loadServices(plane, services, backends);
    const changer = startChanger(plane);
    const nodeOf = (seat: Seat): NodeHost => nodes.find(({ name }) => name === seatName(seat))!;
    const means = { plane, topology, changer, variant, nodeOf, remove };
    return { ...means, ...{ services, backends }, ...loaded };
  } catch (error) {
    await remove();
    throw error;
  }
}

const seatsOf = ({ proxies, rounds }: SiteSpec): readonly Seat[] =>
  proxies.flatMap((proxy) => Array.from({ length: rounds }, (_, round) => ({ proxy, round })));

async function startBackends(topology: Topology): Promise<Backends> {
  const [a, b] = topology.nodes.at(-1)!.pods;
  await Promise.all([a!, b!].map((pod) => startGreeter(pod, pod.name, TARGET_PORT)));
  return { a: a!.ipv4, b: b!.ipv4 };
}

async function connectNode(plane: ControlPlane, node: NodeHost): Promise<void> {
  const { name, index, pods } = node;
  await addNode(plane.api, { name, addresses: [`192.168.77.${index}`, `fd00:77::${index}`] });
  await plane.connect(node);
  await sendServicesToNode(pods[0]!.namespace);
}

async function loadServices(
  { api }: ControlPlane,
  services: number,
  backends: Backends,
): Promise<Pick<Site, 'loadSeconds' | 'probes'>> {
  const numbers = probeNumbers(services);
  const { elapsedMs } = await load(api, {
    services,
    endpointsEach: ENDPOINTS_EACH,
    endpointsOf: (service) => (numbers.includes(service) ? [backends.a] : undefined),
  });
  const probes = await Promise.all(
    numbers.map(async (number) => {
      const path = `${servicesPath()}/${serviceName(number)}`;
      const { spec } = await api.get<{ spec: { clusterIP: string } }>(path);
      return { number, clusterIp: spec.clusterIP };
    }),
  );
  return { loadSeconds: elapsedMs / 1000, probes };
}

/** Spread evenly from the first to the last number. */
function probeNumbers(services: number): readonly number[] {
  const count = Math.min(MAX_PROBES, Math.ceil(services / 2)); // The others are changed.
  const step = (services - 1) / Math.max(1, count - 1);
  return Array.from({ length: count }, (_, index) => Math.round(index * step));
}
