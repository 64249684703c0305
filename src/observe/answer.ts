// SPDX-License-Identifier: Apache-2.0
// Explains what happens to a packet on this node: the decision of the plan and the dataplane that carries it
// out. The plan does not depend on dataplanes, so their limits are added here, from their capabilities.
import {
  type Capabilities,
  keepsLocalClient,
  limitationText,
  type PortTraits,
  refusedBy,
  type Served,
  servedBy,
  usedAlgorithm,
} from '../engines/capabilities.ts';
import type { HeldFrontend } from '../engines/dataplane.ts';
import type { FrontendId } from '../engines/entry.ts';
import { limitationsOf } from '../engines/limitations.ts';
import { isLoopback } from '../lib/ip.ts';
import { ALGORITHM_NAMES, LOOKUP_NAMES } from '../plan/decide/balancing.ts';
import { directPath } from '../plan/direct-return/peers.ts';
import { isRealServer } from '../plan/direct-return/real-servers.ts';
import { type Client, clientOf } from '../plan/explain/client.ts';
import { explain } from '../plan/explain/explain.ts';
import type { ExplainStep, Explanation } from '../plan/explain/explanation.ts';
import { type TableOf, withoutLookup } from '../plan/explain/lookup.ts';
import { type Match, matchDestination } from '../plan/explain/match.ts';
import type { Packet } from '../plan/explain/packet.ts';
import type { Backend, Frontend, Plan, ServicePortPlan } from '../plan/types.ts';

export interface Answer extends Explanation {
  /**
   * The dataplane that carries out the decision; null if none does: the packet follows the node's routes, or, to a
   * ClusterIP, may be refused, which the last step says.
   */
  readonly dataplane: string | null;
  /**
   * `not served by bpf: SCTP`, `not programmed by bpf: ..`; empty if it is served or there is nothing to serve.
   */
  readonly limits: readonly string[];
  /** The source address the backend sees; null unless forwarded. */
  readonly source: 'client' | 'node' | null;
}

export interface Serving {
  /** Those composed, in the order in which they are asked. */
  readonly dataplanes: readonly Capabilities[];
  /** What is programmed on this node; undefined if there is no agent to ask. */
  readonly held?: Iterable<HeldFrontend>;
  /** absent: a lookup table is made when it is needed. */
  readonly tableOf?: TableOf;
}

export function answer(plan: Plan, packet: Packet, { dataplanes, held, tableOf }: Serving): Answer {
  const client = clientOf(plan, packet);
  if (client.kind === 'pod here' && isLoopback(packet.destination))
    return ownLoopback(packet, client);
  const decided = explain(plan, packet, tableOf);
  const found = frontendOf(matchDestination(plan, packet), packet);
  if (found === undefined) return { ...decided, ...NOT_OURS };
  const position = client.servedAs;
  const served = servedBy(dataplanes, found.port, found.frontend, position);
  const serving = dataplanes.find(({ dataplane }) => dataplane === served.dataplane);
  const explanation =
    serving !== undefined && !LOOKUP_NAMES.every((name) => serving.algorithms.includes(name))
      ? withoutLookup(decided)
      : decided;
  if (served.dataplane !== undefined && held && !isHeld(held, served.dataplane, found.id)) {
    return notProgrammed(explanation, served.dataplane);
  }
  const { dataplane, limitations, differences } = served;
  const isForwarded = explanation.verdict === 'forward' && dataplane !== undefined;
  const isUnchanged = isForwarded && client.position === 'pod' && differences.length > 0;
  const reasons = dataplane === undefined ? limitations : isUnchanged ? differences : [];
  const refuser =
    dataplane === undefined && refusedBy(dataplanes, found.port, found.frontend, position);
  const reason = [
    ...reasons.map((one) => (isUnchanged ? one.reason : limitationText(one))),
    ...(refuser ? [`${refuser} refuses it, as other ports of a ClusterIP`] : []),
  ].join('; ');
  const isKept = isUnchanged || answersDirectly(plan, dataplanes, served, { found, client });
  return {
    ...explanation,
    steps: [
      ...explanation.steps,
      ...affinityStep(dataplanes, dataplane, explanation),
      ...algorithmStep(dataplanes, dataplane, explanation),
      ...forwardingStep(dataplanes, dataplane, explanation),
      ...proxyProtocolStep(serving, found, explanation),
      dataplaneStep(dataplane, reason),
    ],
    dataplane: dataplane ?? null,
    limits: dataplane === undefined ? limitations.map(limitationText) : [],
    source: isForwarded ? (explanation.masquerade && !isKept ? 'node' : 'client') : null,
  };
}

/** True if the chosen backend, whichever it is, sees the client: on this node, or by direct return. */
function answersDirectly(
  { node }: Plan,
  dataplanes: readonly Capabilities[],
  { dataplane }: Served,
  {
    found: { frontend, port },
    client: { position },
  }: { readonly found: Found; readonly client: Client },
): boolean {
  const serving = dataplanes.find((known) => known.dataplane === dataplane);
  if (position !== 'outside' || serving === undefined) return false;
  if (!keepsLocalClient(serving, frontend)) return false;
  const { scope, directReturn = false, ipip = false } = frontend.rules.outside;
  const isDirect = directReturn && serving.directReturn;
  const hasPath = (backend: Backend): boolean =>
    ipip ? isRealServer(backend) : 'address' in directPath(node, backend, port.family);
  return [...port[scope]].every((backend) => backend.isLocal || (isDirect && hasPath(backend)));
}

const NOT_OURS = { dataplane: null, limits: [], source: null } as const;

/** The plan is as it should be; why the dataplane is not is among the failed entries of its status. */
function notProgrammed(explanation: Explanation, dataplane: string): Answer {
  const reason = `not programmed by ${dataplane}: see \`fairlead status\``;
  return {
    ...explanation,
    steps: [...explanation.steps, dataplaneStep(undefined, reason)],
    dataplane: null,
    limits: [reason],
    source: null,
  };
}

function isHeld(held: Iterable<HeldFrontend>, dataplane: string, asked: FrontendId): boolean {
  for (const { id, dataplane: holder } of held) {
    const isSame =
      id.port === asked.port &&
      id.address === asked.address &&
      id.protocol === asked.protocol &&
      id.family === asked.family;
    if (isSame && holder === dataplane) return true;
  }
  return false;
}

const dataplaneStep = (dataplane: string | undefined, reason: string): ExplainStep => ({
  rule: 'dataplane',
  result: dataplane ?? 'none',
  reason: reason === '' ? `served by ${dataplane}` : reason,
});

/** Where the plan has session affinity: what the dataplane makes of it. */
function affinityStep(
  dataplanes: readonly Capabilities[],
  dataplane: string | undefined,
  { steps }: Explanation,
): readonly ExplainStep[] {
  const serving = dataplanes.find((known) => known.dataplane === dataplane);
  if (serving === undefined || !steps.some(({ rule }) => rule === 'affinity')) return [];
  return limitationsOf(serving)
    .filter(({ code }) => code === 'AFFINITY_CLIENTS')
    .map(({ reason }) => ({
      rule: 'affinity',
      result: 'limited',
      reason: `${dataplane}: ${reason}`,
    }));
}

/** Where the plan has an algorithm that the dataplane cannot: what it uses instead. */
function algorithmStep(
  dataplanes: readonly Capabilities[],
  dataplane: string | undefined,
  { steps }: Explanation,
): readonly ExplainStep[] {
  const serving = dataplanes.find((known) => known.dataplane === dataplane);
  const asked = ALGORITHM_NAMES.find((name) =>
    steps.some(({ rule, result }) => rule === 'algorithm' && result === name),
  );
  if (serving === undefined || asked === undefined) return [];
  const used = usedAlgorithm(serving, asked);
  if (used === asked) return [];
  const reason = `${dataplane} cannot choose by ${asked}`;
  return [{ rule: 'algorithm', result: used, reason }];
}

/** Where the plan has direct return, and the dataplane cannot. */
function forwardingStep(
  dataplanes: readonly Capabilities[],
  dataplane: string | undefined,
  { steps }: Explanation,
): readonly ExplainStep[] {
  const serving = dataplanes.find((known) => known.dataplane === dataplane);
  const isAsked = steps.some(({ rule, result }) => rule === 'forwarding' && result !== 'snat');
  if (serving === undefined || !isAsked || serving.directReturn) return [];
  const why = serving.noDirectReturn === undefined ? '' : ` (${serving.noDirectReturn})`;
  const reason = `${dataplane} has no direct return on this node${why}: all of them are masqueraded`;
  return [{ rule: 'forwarding', result: 'snat', reason }];
}

/** Where the Service asks for it: whether backends get it. */
function proxyProtocolStep(
  serving: Capabilities | undefined,
  { port: { proxyProtocol } }: Found,
  { verdict }: Explanation,
): readonly ExplainStep[] {
  if (proxyProtocol === undefined || serving === undefined || verdict !== 'forward') return [];
  const rule = 'proxy protocol';
  return serving.relays === undefined
    ? [
        {
          rule,
          result: 'none',
          reason: `only the engine userspace sends it, not ${serving.dataplane}`,
        },
      ]
    : [{ rule, result: proxyProtocol, reason: 'backends get a header that names the client' }];
}

/** A pod's 127.0.0.1 belongs to its own network namespace and never reaches the node. */
function ownLoopback({ destination }: Packet, { kind, reason }: Client): Answer {
  const own = `${destination} is the pod's own loopback, which the node never sees`;
  return {
    ...{ verdict: 'none', frontend: null, service: null, backends: [], masquerade: false },
    steps: [
      { rule: 'client', result: kind, reason },
      { rule: 'frontend', result: 'none', reason: own },
    ],
    ...NOT_OURS,
  };
}

interface Found {
  readonly frontend: Frontend;
  readonly port: PortTraits & Pick<ServicePortPlan, 'proxyProtocol'>;
  /** The entry that a dataplane has for it. */
  readonly id: FrontendId;
}

/** The frontend whose capabilities apply: for an unknown port, the ClusterIP that refuses it. */
function frontendOf(match: Match, { destination, protocol: asked }: Packet): Found | undefined {
  if (match.kind === 'frontend') {
    const { port, frontend } = match;
    const { family, protocol } = port;
    const id = { family, address: frontend.address, port: frontend.port, protocol };
    return { frontend, port, id };
  }
  if (match.kind === 'nothing') return undefined;
  for (const { frontends, family } of match.service.ports) {
    const frontend = frontends.find(
      ({ kind, address }) => kind === 'ClusterIP' && address === destination,
    );
    if (frontend === undefined) continue;
    const id = { family, address: destination, port: undefined, protocol: undefined };
    return { frontend, port: { family, protocol: asked, cluster: [], local: [] }, id };
  }
  return undefined;
}
