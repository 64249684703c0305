// SPDX-License-Identifier: Apache-2.0
// The law of this folder: what the rules of a plan do with a packet is what the plan says.
import { expect } from 'vitest';
import { render } from '../../../../../src/engines/iptables/rows/render.ts';
import type { RenderSettings } from '../../../../../src/engines/iptables/rows/settings.ts';
import { matchDestination } from '../../../../../src/plan/explain/match.ts';
import type { Packet } from '../../../../../src/plan/explain/packet.ts';
import type { Plan } from '../../../../../src/plan/types.ts';
import { disagreement, type Rendered } from '../../../../support/iptables/agreement.ts';
import { questionsOf } from '../../../../support/iptables/questions.ts';
import { DEFAULTS } from '../../../../support/iptables/story-rulesets.ts';

/** Each differs from the default. */
const OTHERS: RenderSettings = {
  masqueradeBit: 31,
  hasRandomFully: false,
  hasLocalhostNodePorts: false,
  isTcpLiberal: true,
  accounting: ['ct_state_invalid_dropped_pkts', 'localhost_nps_accepted_pkts'],
};

export const SETTINGS: readonly RenderSettings[] = [DEFAULTS, OTHERS];

/** @param told packets to ask about besides those that the plan itself suggests */
export function expectAgreement(
  { services, ...rest }: Plan,
  told: readonly Packet[] = [],
  settings: readonly RenderSettings[] = SETTINGS,
): void {
  // Each packet looks at all of them: the planner's own map has a thousand parts.
  const plan = { ...rest, services: new Map(services) };
  const packets = [...told, ...questionsOf(plan)];
  const bound = externalAddresses(plan);
  const toBound = packets.filter((packet) => isAskedIfBound(plan, packet, bound));
  for (const one of settings) {
    const rendered = { plan, rulesets: render(plan, one), settings: one };
    expectAll(rendered, packets);
    expectAll({ ...rendered, bound }, toBound);
  }
}

function expectAll(rendered: Rendered, packets: readonly Packet[]): void {
  const found = packets.map((packet) => disagreement(rendered, packet));
  expect(found.find((reason) => reason !== undefined)).toBeUndefined();
}

/** No node has a ClusterIP: one that another Service asks for as an external address stays what it is. */
function externalAddresses({ services }: Plan): readonly string[] {
  const frontends = [...services.values()].flatMap(({ ports }) =>
    ports.flatMap((port) => port.frontends),
  );
  const clusterIps = frontends
    .filter(({ kind }) => kind === 'ClusterIP')
    .map(({ address }) => address);
  return frontends.flatMap(({ address }) =>
    address === undefined || clusterIps.includes(address) ? [] : [address],
  );
}

/** A node that has the address answers NodePorts there, too, which the plan does not know; and who sends from there is itself. */
const isAskedIfBound = (plan: Plan, packet: Packet, bound: readonly string[]): boolean =>
  bound.includes(packet.destination) &&
  !(bound.includes(packet.source) && packet.source !== packet.destination) &&
  matchDestination(plan, packet).kind === 'frontend';
