// SPDX-License-Identifier: Apache-2.0
// What a new connection gets from the sockets of the userspace engine: where it listens by the plan, and whom its client gets.
// Without a socket: whatever address Services have, the node has it, too, and the kernel refuses.
import type { Capabilities } from '../../../src/engines/capabilities.ts';
import { backendText } from '../../../src/engines/userspace/choice/balancer.ts';
import { verdictOf } from '../../../src/engines/userspace/choice/verdict.ts';
import { addressesOf, listenersOf } from '../../../src/engines/userspace/listeners/listeners.ts';
import { matchDestination } from '../../../src/plan/explain/match.ts';
import type { Plan } from '../../../src/plan/types.ts';
import type { Answer, Asked } from '../conformance.ts';
import { nodeAddressesOf } from './program-tables.ts';

export function answerOfSockets(
  plan: Plan,
  { packet, position }: Asked,
  capabilities: Capabilities,
): Answer {
  const { source, sourcePort = 0, destination, destinationPort, protocol } = packet;
  const listeners = [
    ...listenersOf(plan, {
      nodeAddresses: nodeAddressesOf(plan),
      addsAddresses: true,
    }).values(),
  ];
  const listener = listeners.find(
    ({ at, frontend, protocol: own }) =>
      own === protocol && frontend.port === destinationPort && at.includes(destination),
  );
  const nobody = { backends: [], masquerade: false, keepingClient: [] };
  if (listener === undefined) {
    // Not of a ClusterIP at which nothing listens at all: docs/semantics.md says so, and stories have it.
    const isRefused =
      addressesOf(listeners).has(destination) ||
      matchDestination(plan, packet).kind === 'unknown-port';
    return { verdict: isRefused ? 'reject' : 'none', ...nobody };
  }
  if (listener.isClosed) return { verdict: 'reject', ...nobody };
  const connecting = { client: source, clientPort: sourcePort, local: destination };
  const verdict = verdictOf(plan, listener, connecting, capabilities);
  if (verdict.kind !== 'forward') return { verdict: verdict.kind, ...nobody };
  return {
    verdict: 'forward',
    backends: verdict.candidates.map(({ backend }) => backendText(backend)),
    // The limitation CLIENT_ADDRESS: an address of the node is seen by all, also where the plan has the client's.
    masquerade: listener.frontend.rules[position].masquerade,
    keepingClient: [],
  };
}
