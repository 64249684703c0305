// SPDX-License-Identifier: Apache-2.0
// Why a packet would go where it goes: the plan's answer, one step at a time, each with its reason. It reads
// the plan and decides nothing of its own, so tests may hold it against any dataplane.
import { prefixContains } from '../../lib/ip.ts';
import { algorithmFor, lookupOf } from '../decide/balancing.ts';
import { frontendKey } from '../decide/frontends.ts';
import type { Backend, Plan } from '../types.ts';
import { type Client, clientOf } from './client.ts';
import type { ExplainStep, Explanation } from './explanation.ts';
import { lookupChoice, type TableOf } from './lookup.ts';
import { type FrontendMatch, type Match, matchDestination } from './match.ts';
import { type Outcome, outcomeAt } from './outcome.ts';
import type { Packet } from './packet.ts';
import {
  algorithmStep,
  endpointsStep,
  forwardingStep,
  hairpinStep,
  keptAddressStep,
  masqueradeStep,
  policyStep,
  topologyStep,
} from './steps.ts';

const backendText = ({ address, port }: Backend): string =>
  address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;

export function explain(plan: Plan, packet: Packet, tableOf?: TableOf): Explanation {
  const client = clientOf(plan, packet);
  const match = matchDestination(plan, packet);
  const steps: ExplainStep[] = [
    { rule: 'client', result: client.kind, reason: client.reason },
    frontendStep(match, packet),
  ];
  const ends = (verdict: Explanation['verdict'], service: string | null): Explanation => ({
    verdict,
    frontend: null,
    service,
    backends: [],
    masquerade: false,
    steps,
  });
  if (match.kind === 'nothing') return ends('none', null);
  if (match.kind === 'unknown-port') {
    return ends('reject', `${match.service.namespace}/${match.service.name}`);
  }
  const outcome = outcomeAt(match, packet, client);
  steps.push(...guardSteps(match, packet, outcome));
  return outcome.guard === undefined
    ? chosen(plan, match, { packet, client, outcome, tableOf, before: steps })
    : refusal(match, packet, { verdict: 'drop', steps });
}

function frontendStep(match: Match, packet: Packet): ExplainStep {
  const { destination, destinationPort, protocol } = packet;
  switch (match.kind) {
    case 'nothing':
      return { rule: 'frontend', result: 'none', reason: match.reason };
    case 'unknown-port':
      return {
        rule: 'frontend',
        result: 'reject',
        reason: `${destination} is the ClusterIP of ${match.service.namespace}/${match.service.name}, which ${
          match.ports === ''
            ? 'does not expose it (fairlead.io/expose)'
            : `has ${match.ports} and not ${destinationPort}/${protocol}`
        }`,
      };
    case 'frontend': {
      const { namespace, name, portName } = match.port;
      const port = portName === '' ? '' : `, port ${portName}`;
      return {
        rule: 'frontend',
        result: match.frontend.kind,
        reason: `${frontendKey(destination, destinationPort, protocol)} is Service ${namespace}/${name}${port}`,
      };
    }
  }
}

/** Drops that no endpoint can change, and source ranges that admit the client. */
function guardSteps(
  { frontend, port: { sources } }: FrontendMatch,
  { source, destination }: Packet,
  { guard }: Outcome,
): readonly ExplainStep[] {
  if (guard === 'loopback') {
    const reason = `${destination} is for processes of this node alone (CVE-2020-8558)`;
    return [{ rule: 'loopback', result: 'drop', reason }];
  }
  if (!frontend.isFiltered || sources === undefined) return [];
  const { policy, ranges } = sources;
  const range = ranges.find((prefix) => prefixContains(prefix, source));
  const list = ranges.join(', ') || 'the ranges, none of which could be read';
  const where = range === undefined ? `is in none of ${list}` : `is in ${range}`;
  const reason = `${source} ${where}${policy === 'deny' ? ', which are denied' : ''}`;
  return [{ rule: 'source-ranges', result: guard === 'sources' ? 'drop' : 'allow', reason }];
}

function refusal(
  { port }: FrontendMatch,
  { destination, destinationPort, protocol }: Packet,
  outcome: Pick<Explanation, 'verdict' | 'steps'>,
): Explanation {
  return {
    verdict: outcome.verdict,
    frontend: frontendKey(destination, destinationPort, protocol),
    service: `${port.namespace}/${port.name}`,
    backends: [],
    masquerade: false,
    steps: outcome.steps,
  };
}

/** The set that the client's traffic rule names, and what becomes of the packet. */
function chosen(
  plan: Plan,
  match: FrontendMatch,
  {
    packet,
    client,
    outcome: { verdict, rule: trafficRule, backends },
    tableOf,
    before,
  }: {
    readonly packet: Packet;
    readonly client: Client;
    readonly outcome: Outcome;
    readonly tableOf: TableOf | undefined;
    readonly before: readonly ExplainStep[];
  },
): Explanation {
  const { port, frontend } = match;
  const steps = [
    ...before,
    policyStep(frontend, client.position),
    ...topologyStep(port, trafficRule.scope),
    endpointsStep(port, trafficRule),
  ];
  if (verdict !== 'forward') return refusal(match, packet, { verdict, steps });
  const hairpins = backends.filter(({ address }) => address === packet.source);
  if (port.affinityTimeoutSeconds > 0) {
    steps.push({
      rule: 'affinity',
      result: 'ClientIP',
      reason: `${packet.source} keeps its backend for ${port.affinityTimeoutSeconds} s after each new connection, on all frontends of this port`,
    });
  }
  const algorithm = algorithmFor(port, frontend, client.position);
  const lookup = backends.length > 1 ? lookupOf(algorithm) : undefined;
  const found = lookup && lookupChoice([algorithm, lookup], port, packet, backends, tableOf);
  steps.push(
    ...algorithmStep(port, frontend, client.position, backends),
    ...(found === undefined ? [] : [found.step]),
    masqueradeStep(frontend, client.position),
    ...(client.position === 'outside' ? forwardingStep(port, frontend, backends, plan.node) : []),
    ...hairpinStep(hairpins, backends, trafficRule),
    ...keptAddressStep(frontend, backends, trafficRule),
  );
  return {
    ...refusal(match, packet, { verdict: 'forward', steps }),
    backends: backends.map(backendText),
    ...(found?.chosen !== undefined && { chosen: found.chosen }),
    masquerade: trafficRule.masquerade || hairpins.length === backends.length,
  };
}
