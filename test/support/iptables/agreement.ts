// SPDX-License-Identifier: Apache-2.0
// Do the rules do with a packet what the plan says (src/plan/explain)? undefined, or all there is to know about why not.
import type { RenderSettings } from '../../../src/engines/iptables/rows/settings.ts';
import type { Ruleset } from '../../../src/engines/iptables/rules/types.ts';
import { hostPort } from '../../../src/lib/address-bytes.ts';
import { familyOf, isLoopback } from '../../../src/lib/ip.ts';
import { type Client, clientOf } from '../../../src/plan/explain/client.ts';
import { explain } from '../../../src/plan/explain/explain.ts';
import type { Explanation } from '../../../src/plan/explain/explanation.ts';
import { matchDestination } from '../../../src/plan/explain/match.ts';
import type { Packet } from '../../../src/plan/explain/packet.ts';
import type { Plan } from '../../../src/plan/types.ts';
import type { Path, TracedPacket, World } from './packet.ts';
import { trace } from './trace.ts';
import { type PossibleBackend, pathText, type Verdict, verdictOf } from './verdict.ts';

/** A plan and what is to be the same. */
export interface Rendered extends Known {
  readonly settings: RenderSettings;
}

export interface Known {
  readonly plan: Plan;
  readonly rulesets: readonly Ruleset[];
  /** Addresses that the node has besides those of its Node object, as a balancer's on its loopback device. */
  readonly bound?: readonly string[];
}

/** Shares of backends are rounded to ten digits in the rules, and to fractions of 2^31 in the kernel. */
const TOLERANCE = 1e-6;
/** Marks of others must be left alone. */
const OTHER_MARK = 0x5;
const UPLINK = 'uplink0';

const VERDICTS: Readonly<Record<Explanation['verdict'], Verdict['verdict']>> = {
  forward: 'accept to backend',
  reject: 'reject',
  drop: 'drop',
  none: 'unmatched',
};

export function disagreement(rendered: Rendered, packet: Packet): string | undefined {
  const { plan, settings } = rendered;
  if (isLoopback(packet.destination) && !settings.hasLocalhostNodePorts) return undefined;
  const explanation = explain(plan, packet);
  const { paths, world } = traced(rendered, packet);
  const reason =
    differenceOf(explanation, verdictOf(paths), packet, { world, plan }) ??
    leftMark(paths) ??
    affinityDifference(rendered, packet, paths);
  return reason === undefined
    ? undefined
    : [
        `${packet.source} -> ${packet.destination}:${packet.destinationPort}/${packet.protocol}: ${reason}`,
        `the plan: ${explanation.verdict} ${explanation.backends.join(' ')}`,
        ...explanation.steps.map(({ rule, result, reason }) => `  ${rule}: ${result}, ${reason}`),
        'the rules:',
        ...paths.map((path) => pathText(path, familyOf(packet.source))),
      ].join('\n');
}

/** What xt_recent knows: for how long the client is in a list. */
interface Memory {
  readonly list: string;
  readonly ageSeconds: number;
}

interface Traced {
  readonly paths: readonly Path[];
  readonly world: World;
}

export function traced(
  { plan, rulesets, bound = [] }: Known,
  packet: Packet,
  memory?: Memory,
): Traced {
  const family = familyOf(packet.source);
  const ruleset = rulesets.find((one) => one.family === family);
  if (ruleset === undefined) throw new Error(`no rules of ${family}`);
  const client = clientOf(plan, packet);
  const world: World = {
    isLocal: (address) => bound.includes(address) || isOwn(plan, packet, client, address),
    isRecent: (list, address, seconds) =>
      list === memory?.list && address === packet.source && memory.ageSeconds < seconds,
    snatAddress: plan.node.addresses[family] ?? 'the node',
  };
  const start: TracedPacket = {
    ...packet,
    sourcePort: 40_000,
    inInterface: interfaceOf(plan, packet, client),
    state: 'NEW',
    mark: OTHER_MARK,
    isDnat: false,
  };
  return { paths: trace(ruleset, world, start), world };
}

/** A process of the node has all the node's addresses, and one that is not in its Node object if it sends from there. */
export const isOwn = (plan: Plan, packet: Packet, { kind }: Client, address: string): boolean =>
  isLoopback(address) ||
  plan.node.localAddresses.includes(address) ||
  (kind === 'host process' && address === packet.source);

/** By which its packets come in; undefined: a process of the node sends them. */
export function interfaceOf(
  plan: Plan,
  packet: Packet,
  { kind, position }: Client,
): string | undefined {
  if (kind === 'host process') return undefined;
  const detector = plan.detector[familyOf(packet.source)];
  if (packet.sourceInterface !== undefined) return packet.sourceInterface;
  if (position !== 'pod' || detector === undefined || detector.kind === 'cidr') return UPLINK;
  return detector.kind === 'interface' ? detector.name : `${detector.prefix}1`;
}

function differenceOf(
  explanation: Explanation,
  met: Verdict,
  packet: Packet,
  { world, plan }: { readonly world: World; readonly plan: Plan },
): string | undefined {
  const verdict = VERDICTS[explanation.verdict];
  if (isMartian(explanation, packet) && met.verdict === 'drop') return undefined;
  if (met.verdict !== verdict) return `${met.verdict} instead of ${verdict}`;
  const wanted = wantedBackends(explanation, packet, world, weightsOf(plan, packet));
  const backends = (some: readonly PossibleBackend[]) =>
    some.map(({ backend }) => backend).join(' ');
  if (backends(wanted) !== backends(met.backends))
    return `${backends(met.backends)} instead of ${backends(wanted)}`;
  for (const [index, { backend, probability, masquerade }] of wanted.entries()) {
    const one = met.backends[index];
    if (Math.abs((one?.probability ?? 0) - probability) > TOLERANCE)
      return `${backend} with ${one?.probability} instead of ${probability}`;
    if (one?.masquerade !== masquerade)
      return `${backend} masqueraded: ${one?.masquerade} instead of ${masquerade}`;
  }
  return undefined;
}

/** `[2001:db8::1]:80` -> `2001:db8::1` */
export const hostOf = (backend: string): string =>
  backend.slice(0, backend.lastIndexOf(':')).replace(/^\[(.*)\]$/, '$1');

/** To a loopback address from another: what is not translated is dropped before anybody asks for its port. */
const isMartian = ({ verdict }: Explanation, { source, destination }: Packet): boolean =>
  isLoopback(destination) && !isLoopback(source) && (verdict === 'none' || verdict === 'reject');

/** By `address:port`, where the algorithm weighs; absent = 1. */
function weightsOf(plan: Plan, packet: Packet): ReadonlyMap<string, number> {
  const match = matchDestination(plan, packet);
  if (match.kind !== 'frontend' || match.port.algorithm === undefined) return new Map();
  return new Map(
    [...match.port.serving].map(({ address, port, weight = 1 }) => [
      hostPort(address, port),
      weight,
    ]),
  );
}

/**
 * Each with its share, and masqueraded as the traffic rule says, besides the backend that is its own client. What comes in for a
 * backend that has the node's own address leaves by no device, so nothing masquerades it and the node answers itself.
 */
function wantedBackends(
  { backends, masquerade }: Explanation,
  { source, ...packet }: Packet,
  world: World,
  weights: ReadonlyMap<string, number>,
): readonly PossibleBackend[] {
  const weightOf = (backend: string): number => weights.get(backend) ?? 1;
  const sum = backends.reduce((total, backend) => total + weightOf(backend), 0);
  const isSent = world.isLocal(source) && packet.sourceInterface === undefined;
  return backends.toSorted().map((backend) => {
    const address = hostOf(backend);
    const isDelivered = !isSent && world.isLocal(address);
    const isMasqueraded = (masquerade || address === source) && !isDelivered;
    const probability = weightOf(backend) / sum;
    return { backend, probability, masquerade: isMasqueraded ? 'yes' : 'no' };
  });
}

/** A packet that has been masqueraded must not be masqueraded again where it passes POSTROUTING a second time. */
function leftMark(paths: readonly Path[]): string | undefined {
  const left = paths.find(
    ({ isMasqueraded, packet }) => isMasqueraded && packet.mark !== OTHER_MARK,
  );
  return left && `mark ${left.packet.mark} after masquerading`;
}

/** A client that has a backend keeps it for the time of the plan, and no longer. */
function affinityDifference(
  rendered: Rendered,
  packet: Packet,
  paths: readonly Path[],
): string | undefined {
  const match = matchDestination(rendered.plan, packet);
  if (match.kind !== 'frontend') return undefined;
  const seconds = match.port.affinityTimeoutSeconds;
  const first = verdictOf(paths);
  for (const path of paths.filter(({ packet }) => packet.isDnat)) {
    const [list, ...more] = path.remembered;
    if (more.length > 0) return `remembered twice: ${path.remembered.join(' ')}`;
    if ((list !== undefined) !== seconds > 0)
      return list === undefined ? 'not remembered' : `remembered in ${list} without affinity`;
    if (list === undefined) continue;
    const again = (ageSeconds: number) => traced(rendered, packet, { list, ageSeconds }).paths;
    const kept = verdictOf(again(seconds - 1));
    const wanted = verdictOf([{ ...path, probability: 1 }]);
    if (JSON.stringify(kept) !== JSON.stringify(wanted))
      return `remembered in ${list}, but gets ${JSON.stringify(kept)}`;
    if (JSON.stringify(verdictOf(again(seconds))) !== JSON.stringify(first))
      return `remembered in ${list} for more than ${seconds} s`;
  }
  return undefined;
}
