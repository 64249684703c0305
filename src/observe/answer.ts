// SPDX-License-Identifier: Apache-2.0
// What becomes of a packet on this node: what the plan decides, and which dataplane does it. The plan
// knows no dataplane, so what a dataplane cannot do is added here, from the table of capabilities.
import { DATAPLANES, limitText, originOf, servedBy } from '../dataplane/capabilities.ts';
import { isLoopback } from '../lib/ip.ts';
import type { Family } from '../model/types.ts';
import { type Client, clientOf } from '../plan/explain/client.ts';
import { explain } from '../plan/explain/explain.ts';
import type { ExplainStep, Explanation } from '../plan/explain/explanation.ts';
import { type Match, matchDestination } from '../plan/explain/match.ts';
import { type Packet, parsePacket } from '../plan/explain/packet.ts';
import type { Frontend, Plan } from '../plan/types.ts';

export interface Answer extends Explanation {
  /** The dataplane that does what the plan decides; null: none, the packet is left alone. */
  readonly dataplane: string | null;
  /** `not served by bpf: SCTP`; empty where something serves it or there is nothing to serve. */
  readonly limits: readonly string[];
  /** The source address the backend sees; null unless forwarded. */
  readonly source: 'client' | 'node' | null;
}

export function answer(plan: Plan, packet: Packet): Answer {
  const client = clientOf(plan, packet);
  if (client.kind === 'pod here' && isLoopback(packet.destination))
    return ownLoopback(packet, client);
  const explanation = explain(plan, packet);
  const frontend = frontendOf(matchDestination(plan, packet), packet);
  if (frontend === undefined) return { ...explanation, ...NOT_OURS };
  const port = { family: frontend.family, protocol: packet.protocol };
  const { dataplane, limits, differences } = servedBy(
    DATAPLANES,
    port,
    frontend.frontend,
    originOf(client.kind),
  );
  const isForwarded = explanation.verdict === 'forward' && dataplane !== undefined;
  const isKept = isForwarded && client.position === 'pod' && differences.length > 0;
  const reasons = dataplane === undefined ? limits : isKept ? differences : [];
  const reason = reasons.map((limit) => (isKept ? limit.reason : limitText(limit))).join('; ');
  return {
    ...explanation,
    steps: [...explanation.steps, dataplaneStep(dataplane, reason)],
    dataplane: dataplane ?? null,
    limits: dataplane === undefined ? limits.map(limitText) : [],
    source: isForwarded ? (explanation.masquerade && !isKept ? 'node' : 'client') : null,
  };
}

const NOT_OURS = { dataplane: null, limits: [], source: null } as const;

const dataplaneStep = (dataplane: string | undefined, reason: string): ExplainStep => ({
  rule: 'dataplane',
  result: dataplane ?? 'none',
  reason: reason === '' ? `served by ${dataplane}` : reason,
});

/** A pod's 127.0.0.1 is inside its own network namespace: nothing of it reaches the node. */
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

/** The frontend whose capabilities count: for an unknown port, that of the ClusterIP which refuses it. */
function frontendOf(
  match: Match,
  { destination }: Packet,
): { readonly frontend: Frontend; readonly family: Family } | undefined {
  if (match.kind === 'frontend') return { frontend: match.frontend, family: match.port.family };
  if (match.kind === 'nothing') return undefined;
  for (const { frontends, family } of match.service.ports) {
    const frontend = frontends.find(
      ({ kind, address }) => kind === 'ClusterIP' && address === destination,
    );
    if (frontend !== undefined) return { frontend, family };
  }
  return undefined;
}

/**
 * The answer to `from`, `to` and `by` of a request; `{error}` if there is no plan or no such packet.
 * @param interfaceAddresses of this node: NodePorts answer on these, whatever the Node object says
 */
export function explained(
  plan: Plan | undefined,
  interfaceAddresses: readonly string[],
  query: URLSearchParams,
): Answer | { readonly error: string } {
  if (plan === undefined) return { error: 'there is no plan yet' };
  const localAddresses = [...plan.node.localAddresses, ...interfaceAddresses];
  const here = { ...plan, node: { ...plan.node, localAddresses } };
  const by = query.get('by') ?? undefined;
  const parsed = parsePacket(query.get('from') ?? '', query.get('to') ?? '', by);
  return parsed.ok ? answer(here, parsed.packet) : { error: parsed.reason };
}
