// SPDX-License-Identifier: Apache-2.0
// An explanation as text for people, and as one JSON object for programs.

import { addressClaim } from '../decide/frontends.ts';
import type { Explanation } from './explanation.ts';
import type { Packet } from './packet.ts';

function headline(explanation: Explanation): string {
  const { verdict, backends, masquerade } = explanation;
  switch (verdict) {
    case 'forward': {
      const to = backends.length === 1 ? backends.join() : `one of ${backends.join(', ')}`;
      return `forwarded to ${to}, ${masquerade ? "with this node's address" : "with the client's address"}`;
    }
    case 'reject':
      return 'rejected: the client is refused at once';
    case 'drop':
      return 'dropped: the client hears nothing';
    case 'none':
      return 'not a Service of this node: left alone';
  }
}

/** Headline, Service, then one line a step in three columns. */
export function explanationText(packet: Packet, explanation: Explanation): string {
  const { source, destination, destinationPort, protocol } = packet;
  const { service, steps } = explanation;
  const to = addressClaim(destination, destinationPort, protocol);
  const width = (pick: (at: Explanation['steps'][number]) => string): number =>
    Math.max(...steps.map((step) => pick(step).length));
  const ruleWidth = width((step) => step.rule);
  const resultWidth = width((step) => step.result);
  return [
    `${source} -> ${to}: ${headline(explanation)}`,
    ...(service === null ? [] : [`Service ${service}`]),
    '',
    ...steps.map(
      ({ rule, result, reason }) =>
        `  ${rule.padEnd(ruleWidth)}   ${result.padEnd(resultWidth)}   ${reason}`,
    ),
  ].join('\n');
}

/** Keys in a fixed order, nothing left out. */
export function explanationJson(explanation: Explanation): string {
  const { verdict, frontend, service, backends, masquerade, steps } = explanation;
  return JSON.stringify({ verdict, frontend, service, backends, masquerade, steps }, undefined, 2);
}
