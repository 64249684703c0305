// SPDX-License-Identifier: Apache-2.0
// Which backend a flow gets by a lookup table, and the entry of the table that says so: as the programs find it.
import { hostPort } from '../../lib/address-bytes.ts';
import type { Algorithm } from '../../model/types.ts';
import { LOOKUP_NAMES } from '../decide/balancing.ts';
import type { LookupAlgorithm, LookupInput } from '../lookup-table.ts';
import type { Backend, ServicePortPlan } from '../types.ts';
import type { ExplainStep, Explanation } from './explanation.ts';
import type { Packet } from './packet.ts';

/** Gives the table of a set. Making one can take tens of milliseconds: where that is too long it has been made before. */
export type TableOf = (lookup: LookupAlgorithm, input: LookupInput) => Uint16Array;

/** @param backends those of the set, at least two */
export function lookupChoice(
  [rule, lookup]: readonly [Algorithm, LookupAlgorithm],
  port: ServicePortPlan,
  packet: Packet,
  backends: readonly Backend[],
  tableOf: TableOf = (made, input) => made.tableOf(input),
): Pick<Explanation, 'chosen'> & { readonly step: ExplainStep } {
  const hasAffinity = port.affinityTimeoutSeconds > 0;
  const input = lookup.inputOf(port, backends);
  if (packet.sourcePort === undefined && !hasAffinity) {
    const reason = `its port is not given, as in --from ${hostPort(packet.source, 40_000)}; a socket that is bound to none gets any of ${input.entries} entries`;
    return { step: { rule, result: 'not known', reason } };
  }
  const sourcePort = hasAffinity ? 0 : (packet.sourcePort ?? 0);
  const entry = lookup.entryOf({ ...packet, sourcePort }, input.entries);
  const found = backends[tableOf(lookup, input)[entry] ?? 0];
  const chosen = found === undefined ? '' : hostPort(found.address, found.port);
  const hashed = hasAffinity
    ? 'of the client without its port, unless session affinity knows another backend'
    : 'of client and frontend, addresses and ports';
  const reason = `entry ${entry + 1} of ${input.entries} of the table, by a hash ${hashed}`;
  return { chosen, step: { rule, result: chosen, reason } };
}

const NAMES: readonly string[] = LOOKUP_NAMES;

/** Of a dataplane that chooses otherwise. */
export function withoutLookup({ chosen: _, steps, ...rest }: Explanation): Explanation {
  return { ...rest, steps: steps.filter(({ rule }) => !NAMES.includes(rule)) };
}
