// SPDX-License-Identifier: Apache-2.0
// The answers of the plan, by the functions that explain it.
import { hostPort } from '../../lib/address-bytes.ts';
import { familyOf, isLoopback } from '../../lib/ip.ts';
import type { Family } from '../../model/types.ts';
import { algorithmFor, weightFor } from '../../plan/decide/balancing.ts';
import { frontendKey, nodePortKey } from '../../plan/decide/frontends.ts';
import { clientOf } from '../../plan/explain/client.ts';
import { type Match, matchDestination } from '../../plan/explain/match.ts';
import { outcomeAt } from '../../plan/explain/outcome.ts';
import type { Packet } from '../../plan/explain/packet.ts';
import type { Backend, Plan, ServiceKey, ServicePlan, ServicePortPlan } from '../../plan/types.ts';
import type { Answer, PossibleBackend, Reason } from '../answer.ts';
import { type Range, rangeOf } from '../rules/ranges.ts';
import type { ClientClass, Destination } from '../walk/path.ts';
import type { Reached } from '../walk/reach.ts';
import type { Claim, NodeAddresses, Question, Side } from './side.ts';

export function planSide(given: Plan, family: Family, node: NodeAddresses): Side {
  // Rules ask the kernel what the node's addresses are, and not its Node object.
  const others = given.node.localAddresses.filter((address) => familyOf(address) !== family);
  const plan = { ...given, node: { ...given.node, localAddresses: [...others, ...node.own] } };
  const index = indexOf(plan, family);
  const own = new Set(node.own);
  const isLocal = (address: string): boolean => isLoopback(address) || own.has(address);
  /** Finding a frontend asks every Service: it is asked of those that can have it. */
  const planFor = ({ address, port }: Question): Plan => {
    const keys = new Set([
      ...(index.byAddress.get(address) ?? []),
      ...(port === undefined ? [] : (index.byNodePort.get(port) ?? [])),
    ]);
    const services = new Map<ServiceKey, ServicePlan>();
    for (const key of keys) {
      const service = plan.services.get(key);
      if (service !== undefined) services.set(key, service);
    }
    return {
      ...plan,
      services,
      onNode: new Set([...(plan.onNode ?? [])].filter((key) => keys.has(key))),
    };
  };
  const packetOf = (source: string, destination: Destination, device?: string): Packet => ({
    source,
    destination: destination.address,
    destinationPort: destination.port,
    protocol: destination.protocol,
    ...(device !== undefined && { sourceInterface: device }),
  });
  return {
    ...{ kind: 'plan', name: 'plan' },
    addresses: () => index.byAddress.keys(),
    ranges: () => [],
    reach: (question) => reachOf(planFor(question), family, question, isLocal, index),
    answers: (destination, classes) => {
      const some = planFor(destination);
      const match = matchDestination(some, packetOf(destination.address, destination));
      return answersOf(some, match, classes, {
        packetOf: ({ source, device }) => packetOf(source, destination, device),
        isLocal,
      });
    },
    unread: () => [],
    nodePortAddresses: () => [],
    claimAt: (destination) =>
      claimOf(planFor(destination), packetOf(destination.address, destination), plan.services),
  };
}

/** @param all of the plan, as a Service that lost a frontend may be none of those that can have it */
function claimOf(plan: Plan, packet: Packet, all: Plan['services']): Claim | undefined {
  const match = matchDestination(plan, packet);
  const [first] = plan.services.values();
  const { namespace, name } =
    match.kind === 'frontend'
      ? match.port
      : match.kind === 'unknown-port'
        ? match.service
        : (first ?? {});
  if (namespace === undefined || name === undefined) return undefined;
  return {
    service: `${namespace}/${name}`,
    ...askersOf(plan, packet, `${namespace}/${name}`, all),
    rejected: plan.rejections
      .filter(({ object }) => object.namespace === namespace && object.name === name)
      .map(({ field }) => field),
  };
}

/** A Service that lost it has been told whose it is. */
function askersOf(
  { rejections }: Plan,
  packet: Packet,
  owner: ServiceKey,
  services: Plan['services'],
): Pick<Claim, 'isContested' | 'endpoints'> {
  const { destination, destinationPort: port, protocol } = packet;
  const family = familyOf(destination);
  const keys = [frontendKey(destination, port, protocol), nodePortKey(port, protocol, family)];
  const losers = rejections.flatMap(({ object, reason: text }) =>
    keys.some((key) => text.startsWith(`${key} already belongs to `))
      ? `${object.namespace}/${object.name}`
      : [],
  );
  const endpoints = [owner, ...losers].flatMap((key) =>
    (services.get(key as ServiceKey)?.ports ?? [])
      .filter((one) => one.family === family)
      .flatMap(({ cluster, local }) => [...cluster, ...local])
      .map((backend) => hostPort(backend.address, backend.port)),
  );
  return { isContested: losers.length > 0, endpoints: new Set(endpoints) };
}

interface Index {
  readonly byAddress: ReadonlyMap<string, ReadonlySet<ServiceKey>>;
  readonly byNodePort: ReadonlyMap<number, ReadonlySet<ServiceKey>>;
}

function indexOf({ services }: Plan, family: Family): Index {
  const byAddress = new Map<string, Set<ServiceKey>>();
  const byNodePort = new Map<number, Set<ServiceKey>>();
  const add = <Key>(map: Map<Key, Set<ServiceKey>>, key: Key, service: ServiceKey): void => {
    const set = map.get(key);
    if (set === undefined) map.set(key, new Set([service]));
    else set.add(service);
  };
  for (const [key, { ports }] of services) {
    for (const port of ports) {
      if (port.family !== family) continue;
      if (port.refusesOtherPortsOf !== undefined) add(byAddress, port.refusesOtherPortsOf, key);
      for (const { address, port: number } of [...port.frontends, ...(port.onNode ?? [])]) {
        if (address === undefined) add(byNodePort, number, key);
        else add(byAddress, address, key);
      }
    }
  }
  return { byAddress, byNodePort };
}

function reachOf(
  plan: Plan,
  family: Family,
  { address, protocol, port }: Question,
  isLocal: (address: string) => boolean,
  { byNodePort }: Index,
): Reached {
  const ports = new Set<string>();
  const sources = new Map<string, Range>();
  const add = (text: string): void => {
    const range = rangeOf(text);
    if (range !== undefined) sources.set(text, range);
  };
  const detector = plan.detector[family];
  if (detector?.kind === 'cidr') add(detector.cidr);
  for (const text of plan.node.localAddresses) if (familyOf(text) === family) add(text);
  for (const cidr of plan.node.podCidrs) if (familyOf(cidr) === family) add(cidr);
  for (const service of plan.services.values()) {
    for (const one of service.ports) {
      if (one.family !== family) continue;
      for (const frontend of [...one.frontends, ...(one.onNode ?? [])])
        if (frontend.address === undefined ? isLocal(address) : frontend.address === address)
          ports.add(`${one.protocol} ${frontend.port}`);
      if (port === undefined || (protocol !== undefined && one.protocol !== protocol)) continue;
      for (const range of one.sources?.ranges ?? []) add(range);
      for (const backend of [...one.cluster, ...one.local]) add(backend.address);
    }
  }
  if (port === undefined && isLocal(address))
    for (const number of byNodePort.keys())
      for (const name of ['TCP', 'UDP', 'SCTP']) ports.add(`${name} ${number}`);
  const device = detector === undefined || detector.kind === 'cidr' ? undefined : detector;
  const devices = new Set<string>();
  if (device?.kind === 'interface') devices.add(device.name);
  if (device?.kind === 'interface-prefix') devices.add(`${device.prefix}*`);
  return { ports, portRanges: [], sources: [...sources.values()], devices };
}

interface Around {
  readonly packetOf: (one: ClientClass) => Packet;
  readonly isLocal: (address: string) => boolean;
}

/** Why the plan drops a client. */
export const SOURCES = 'its source ranges do not admit the client';
/** Of the client's set of backends. */
export const NO_ENDPOINTS = 'it has no endpoints';
/** The client is itself a backend. */
export const ELSEWHERE = 'the client is a backend of another node';

/** Why the plan leaves a frontend alone. */
export const NODE_PROCESS = 'where a process of the node listens';

/** Why it refuses a client of a ClusterIP. */
export const UNKNOWN_PORT = 'has not this port';

const reason = (text: string): Reason => ({ text, isForeign: false });
const NOTHING: Answer = { verdict: 'none', backends: [], affinitySeconds: 0, because: [] };

function answersOf(
  plan: Plan,
  match: Match,
  classes: readonly ClientClass[],
  around: Around,
): readonly Answer[] {
  const made = new Map<string, Answer>();
  return classes.map((one) => {
    const packet = around.packetOf(one);
    const client = clientOf(plan, packet);
    if (isLoopback(packet.destination) && one.device !== undefined)
      return { ...NOTHING, verdict: 'drop' };
    if (match.kind === 'nothing') {
      const isProcess = match.reason.includes(NODE_PROCESS);
      return isProcess ? { ...NOTHING, because: [reason(match.reason)] } : NOTHING;
    }
    if (match.kind === 'unknown-port') {
      const { namespace, name } = match.service;
      return {
        ...NOTHING,
        verdict: 'reject',
        because: [reason(`Service ${namespace}/${name} ${UNKNOWN_PORT}`)],
      };
    }
    const { port, frontend } = match;
    const because = [
      reason(`Service ${port.namespace}/${port.name}: ${frontend.kind}, client ${client.position}`),
    ];
    const { verdict, guard, rule, backends } = outcomeAt(match, packet, client);
    if (backends.length === 0) because.push(reason(NO_ENDPOINTS));
    if (guard === 'sources') because.push(reason(SOURCES));
    if (verdict !== 'forward') return { ...NOTHING, verdict, because };
    const hairpin = backends.find(({ address }) => address === one.source);
    if (hairpin?.isLocal === false) because.push(reason(ELSEWHERE));
    const key = `${client.position} ${hairpin?.address} ${one.device === undefined}`;
    const answer =
      made.get(key) ??
      forward(
        port,
        backends,
        weightFor(algorithmFor(port, frontend, client.position)),
        because,
        (address) => {
          const isDelivered = one.device !== undefined && around.isLocal(address);
          return (rule.masquerade || address === one.source) && !isDelivered;
        },
      );
    made.set(key, answer);
    return answer;
  });
}

function forward(
  { affinityTimeoutSeconds }: ServicePortPlan,
  backends: readonly Backend[],
  weightOf: (backend: Backend) => number,
  because: readonly Reason[],
  isMasqueraded: (address: string) => boolean,
): Answer {
  const sum = backends.reduce((total, backend) => total + weightOf(backend), 0);
  const possible: PossibleBackend[] = backends.map((backend) => ({
    text: hostPort(backend.address, backend.port),
    share: weightOf(backend) / sum,
    masquerade: isMasqueraded(backend.address),
  }));
  possible.sort((a, b) => (a.text < b.text ? -1 : 1));
  return {
    verdict: 'forward',
    backends: possible,
    affinitySeconds: affinityTimeoutSeconds,
    because,
  };
}
