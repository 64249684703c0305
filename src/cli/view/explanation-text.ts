// SPDX-License-Identifier: Apache-2.0
// The text output of `explain`: what happens to the packet, then each rule that was evaluated and its result.
import type { Answer } from '../../observe/answer.ts';
import { frontendKey } from '../../plan/decide/frontends.ts';
import type { Packet } from '../../plan/explain/packet.ts';
import { aligned } from './columns.ts';

/** Headline, Service, then one line per step in three columns. */
export function explanationText(packet: Packet, answer: Answer): string {
  const { source, destination, destinationPort, protocol } = packet;
  const { service, steps } = answer;
  const to = frontendKey(destination, destinationPort, protocol);
  const rows = aligned(steps.map(({ rule, result, reason }) => [rule, result, reason]));
  return [
    `${source} -> ${to}: ${headline(answer)}`,
    ...(service === null ? [] : [`Service ${service}`]),
    '',
    ...rows.map((row) => `  ${row}`),
  ].join('\n');
}

function headline(answer: Answer): string {
  const { limits } = answer;
  const decision = decisionText(answer);
  return limits.length === 0 ? decision : `decided: ${decision}; ${limits.join('; ')}`;
}

function decisionText({ verdict, backends, chosen, masquerade, source }: Answer): string {
  switch (verdict) {
    case 'forward': {
      const one = backends.length === 1 ? backends[0] : chosen;
      const to = one ?? `one of ${backends.join(', ')}`;
      const isNode = source === null ? masquerade : source === 'node';
      return `forward to ${to}, with the ${isNode ? 'node' : 'client'}'s address as source`;
    }
    case 'reject':
      return 'reject: the client is refused at once';
    case 'drop':
      return 'drop: the client gets no response';
    case 'none':
      return 'not a Service address on this node: not translated';
  }
}
