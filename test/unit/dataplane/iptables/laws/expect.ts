// SPDX-License-Identifier: Apache-2.0
// The law of this folder: what the rules of a plan do with a packet is what the plan says.
import { expect } from 'vitest';
import { render } from '../../../../../src/dataplane/iptables/render/render.ts';
import type { RenderSettings } from '../../../../../src/dataplane/iptables/render/settings.ts';
import type { Packet } from '../../../../../src/plan/explain/packet.ts';
import type { Plan } from '../../../../../src/plan/types.ts';
import { disagreement } from '../../../../support/iptables/agreement.ts';
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
  plan: Plan,
  told: readonly Packet[] = [],
  settings: readonly RenderSettings[] = SETTINGS,
): void {
  const packets = [...told, ...questionsOf(plan)];
  for (const one of settings) {
    const rendered = { plan, rulesets: render(plan, one), settings: one };
    const found = packets.map((packet) => disagreement(rendered, packet));
    expect(found.find((reason) => reason !== undefined)).toBeUndefined();
  }
}
