// SPDX-License-Identifier: Apache-2.0
// What the plan does with a new connection to a frontend: decided here once, for those who explain it and those who compare it.
import { isLoopback } from '../../lib/ip.ts';
import { admits } from '../exposure/sources.ts';
import type { Backend, TrafficRule } from '../types.ts';
import type { Client } from './client.ts';
import type { FrontendMatch } from './match.ts';
import type { Packet } from './packet.ts';

export interface Outcome {
  readonly verdict: 'forward' | 'reject' | 'drop';
  /** What drops it whatever the endpoints are; undefined: nothing. */
  readonly guard: 'loopback' | 'sources' | undefined;
  readonly rule: TrafficRule;
  /** Those that the rule chooses from. */
  readonly backends: readonly Backend[];
}

export function outcomeAt(
  match: Pick<FrontendMatch, 'port' | 'frontend'>,
  packet: Pick<Packet, 'source' | 'destination'>,
  client: Client,
): Outcome {
  const rule = match.frontend.rules[client.position];
  const backends = [...match.port[rule.scope]];
  const guard = guardOf(match, packet, client);
  if (guard !== undefined) return { verdict: 'drop', guard, rule, backends };
  const verdict = backends.length === 0 ? rule.whenEmpty : 'forward';
  return { verdict, guard, rule, backends };
}

/** Foreign packets to a loopback address (CVE-2020-8558), and sources outside the ranges. */
function guardOf(
  { frontend, port: { sources } }: Pick<FrontendMatch, 'port' | 'frontend'>,
  { source, destination }: Pick<Packet, 'source' | 'destination'>,
  { kind }: Client,
): Outcome['guard'] {
  if (isLoopback(destination) && !isLoopback(source) && kind !== 'host process') return 'loopback';
  if (!frontend.isFiltered || sources === undefined) return undefined;
  return admits(sources, source) ? undefined : 'sources';
}
