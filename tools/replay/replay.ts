// SPDX-License-Identifier: Apache-2.0
// A captured node, built of namespaces: its objects and settings, an agent, a real socket for each endpoint, and a client at each
// position that asks every frontend. Everything it makes has a unique prefix and is always removed.
import type { Capture } from '../../src/capture/format.ts';
import { FairleadError } from '../../src/errors.ts';
import { familyOf } from '../../src/lib/ip.ts';
import { FAMILIES, type Family } from '../../src/model/types.ts';
import { createPlanner } from '../../src/plan/planner.ts';
import type { PlanSettings } from '../../src/plan/types.ts';
import { ipBatch } from '../../src/sys/netns.ts';
import { makeInstance, startAgent } from '../lab/agent.ts';
import { startProgram } from '../lab/sandbox.ts';
import { buildTopology, type Topology } from '../lab/topology.ts';
import { startClient } from '../lab/traffic.ts';
import type { NodeHost, Pod } from '../lab/wiring.ts';
import { type Asker, ask, questionsOf, type ReplayRow } from './ask.ts';
import { addressesOf, networkLines, podAddress, servedBy } from './network.ts';

export interface ReplayOptions {
  /** Absent: that of the captured agent. */
  readonly engine?: string;
  readonly onLine?: (line: string) => void;
}

export interface ReplayReport {
  readonly apiVersion: 'fairlead.io/v1';
  readonly kind: 'ReplayReport';
  readonly engine: string;
  readonly isAsExplained: boolean;
  readonly rows: readonly ReplayRow[];
}

/** More say nothing more, and take minutes. */
const MOST_QUESTIONS = 300;

/** Throws FairleadError NOT_FOUND for a capture without objects. */
export async function replay(capture: Capture, options: ReplayOptions = {}): Promise<ReplayReport> {
  if (capture.objects === undefined) {
    const why = capture.unread.find(({ what }) => what === 'objects')?.reason ?? 'none were read';
    throw new FairleadError('NOT_FOUND', `the capture has no objects: ${why}`);
  }
  const topology = await buildTopology([
    { name: 'node', pods: ['client', 'here'] },
    { name: 'other', pods: ['there'] },
  ]);
  try {
    return await replayIn(topology, capture, options);
  } finally {
    topology.remove();
  }
}

async function replayIn(
  topology: Topology,
  capture: Capture,
  { engine = engineOf(capture), onLine = () => undefined }: ReplayOptions,
): Promise<ReplayReport> {
  const [node, other] = topology.nodes as [NodeHost, NodeHost];
  const [client, serverHere] = node.pods as [Pod, Pod];
  const [serverThere] = other.pods as [Pod];
  const changes = (capture.objects ?? []).map((one) => ({ type: 'put', ...one }) as const);
  const plan = createPlanner(capture.settings.plan).apply(changes);
  const served = servedBy(plan);
  const [here, elsewhere] = [addressesOf(served.here), addressesOf(served.elsewhere)];
  const taken = new Set([...here, ...elsewhere]);
  const clientAddresses = FAMILIES.flatMap((family) => podAddress(plan, family, taken) ?? []);
  const ownAddresses = [...new Set(Object.values(plan.node.addresses))].filter(
    (one) => one !== undefined,
  );
  const nodeAddress = (family: Family): string =>
    plan.node.addresses[family] ?? (family === 'IPv4' ? node.ipv4 : node.ipv6);
  const questions = questionsOf(plan, nodeAddress).slice(0, MOST_QUESTIONS);
  const frontends = [...new Set(questions.map(({ address }) => address))].filter(
    (one) => !ownAddresses.includes(one),
  );
  const places = { node, other, client, serverHere, serverThere };
  const lines = networkLines({
    ...places,
    ...{ clientAddresses, here, elsewhere, frontends, ownAddresses },
  });
  for (const [namespace, some] of lines) await ipBatch(some, namespace);
  await Promise.all([
    startProgram(serverHere, 'echo-server', ['@', ...served.here]),
    startProgram(serverThere, 'echo-server', ['@', ...served.elsewhere]),
  ]);
  onLine(`namespaces ${topology.prefix}-*: ${here.length + elsewhere.length} endpoints`);
  const made = await makeInstance(topology, node);
  const instance = { ...made, nodeName: plan.node.name };
  instance.manifests.put('objects.yaml', capture.objects?.map(manifestOf) ?? []);
  const agent = await startAgent(instance, ['--engine', engine, ...flagsOf(capture.settings.plan)]);
  try {
    const askers = await askersAt(places, nodeAddress, clientAddresses);
    const rows: ReplayRow[] = [];
    for (const question of questions) {
      const asked = askers.map((asker) => ask(instance.runDir, question, asker));
      for (const row of await Promise.all(asked)) if (row !== undefined) rows.push(row);
    }
    const isAsExplained = rows.every((row) => row.isAsExplained);
    return {
      ...{ apiVersion: 'fairlead.io/v1', kind: 'ReplayReport' },
      ...{ engine, isAsExplained, rows },
    };
  } finally {
    await agent.stop();
  }
}

async function askersAt(
  {
    client,
    node,
    other,
  }: { readonly client: Pod; readonly node: NodeHost; readonly other: NodeHost },
  nodeAddress: (family: Family) => string,
  clientAddresses: readonly string[],
): Promise<readonly Asker[]> {
  const [pod, host, outside] = await Promise.all(
    [client, node, other].map((one) => startClient(one)),
  );
  const wire = (family: Family): string =>
    family === 'IPv4' ? `192.168.77.${other.index}` : `fd00:77::${other.index}`;
  const inPod = (family: Family): string | undefined =>
    clientAddresses.find((address) => familyOf(address) === family);
  return [
    { position: 'pod', client: pod!, from: inPod },
    { position: 'host', client: host!, from: nodeAddress },
    { position: 'outside', client: outside!, from: wire },
  ];
}

/** Where rules served because eBPF could not, they do so here. */
function engineOf(capture: Capture): string {
  const names = capture.dataplanes?.map(({ dataplane }) => dataplane) ?? [];
  return names.length === 1 && names[0] !== 'shadow' ? (names[0] ?? 'auto') : 'auto';
}

function manifestOf({ ref: { kind }, object }: NonNullable<Capture['objects']>[number]) {
  const versions = {
    Service: 'v1',
    Node: 'v1',
    EndpointSlice: 'discovery.k8s.io/v1',
    ServiceCIDR: 'networking.k8s.io/v1',
  };
  return { apiVersion: versions[kind], kind, ...(JSON.parse(JSON.stringify(object)) as object) };
}

/** What decides on the plan. A device by its name is not here: pods are told by their addresses. */
function flagsOf(settings: PlanSettings): readonly string[] {
  const { clusterCidrs, nodePortAddresses, algorithm, forwarding, topology } = settings;
  return [
    ...(clusterCidrs.length > 0 ? ['--cluster-cidr', clusterCidrs.join()] : []),
    ...(settings.detectLocalMode === 'NodeCIDR' ? ['--detect-local-mode', 'NodeCIDR'] : []),
    ...(settings.masqueradeAll ? ['--masquerade-all'] : []),
    ...(nodePortAddresses.length > 0 ? ['--nodeport-addresses', nodePortAddresses.join()] : []),
    ...(settings.allowExternalIps ? [] : ['--no-external-ips']),
    ...(algorithm === undefined ? [] : ['--algorithm', algorithm]),
    ...(forwarding === undefined ? [] : ['--forwarding', forwarding]),
    ...(topology === undefined ? [] : ['--topology', topology]),
  ];
}
