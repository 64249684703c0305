// SPDX-License-Identifier: Apache-2.0
// Which backend a flow gets by Maglev, and the entry of the table that says so: as the programs find it.
import { hostPort } from '../../lib/address-bytes.ts';
import { entryOf, flowHash } from '../maglev/hash.ts';
import { maglevInput } from '../maglev/input.ts';
import { type MaglevInput, maglevTable } from '../maglev/table.ts';
import type { Backend, ServicePortPlan } from '../types.ts';
import type { ExplainStep, Explanation } from './explanation.ts';
import type { Packet } from './packet.ts';

const RULE = 'maglev';

/** Gives the table of a set. Making one can take tens of milliseconds: where that is too long it has been made before. */
export type TableOf = (input: MaglevInput) => Uint16Array;

/** @param backends those of the set, at least two */
export function maglevChoice(
  port: ServicePortPlan,
  packet: Packet,
  backends: readonly Backend[],
  tableOf: TableOf = maglevTable,
): Pick<Explanation, 'chosen'> & { readonly step: ExplainStep } {
  const hasAffinity = port.affinityTimeoutSeconds > 0;
  const input = maglevInput(port, backends);
  if (packet.sourcePort === undefined && !hasAffinity) {
    const reason = `its port is not given, as in --from ${hostPort(packet.source, 40_000)}; a socket that is bound to none gets any of ${input.entries} entries`;
    return { step: { rule: RULE, result: 'not known', reason } };
  }
  const sourcePort = hasAffinity ? 0 : (packet.sourcePort ?? 0);
  const entry = entryOf(flowHash({ ...packet, sourcePort }), input.entries);
  const found = backends[tableOf(input)[entry] ?? 0];
  const chosen = found === undefined ? '' : hostPort(found.address, found.port);
  const hashed = hasAffinity
    ? 'of the client without its port, unless session affinity knows another backend'
    : 'of client and frontend, addresses and ports';
  const reason = `entry ${entry + 1} of ${input.entries} of the table, by a hash ${hashed}`;
  return { chosen, step: { rule: RULE, result: chosen, reason } };
}

/** Of a dataplane that chooses otherwise. */
export function withoutMaglev({ chosen: _, steps, ...rest }: Explanation): Explanation {
  return { ...rest, steps: steps.filter(({ rule }) => rule !== RULE) };
}
