// SPDX-License-Identifier: Apache-2.0
// What the plan says of a client's connection: the backends from which it gets one, or its refusal. Pure.
import type { Algorithm } from '../../../model/types.ts';
import { algorithmFor, weightFor } from '../../../plan/decide/balancing.ts';
import { clientOf } from '../../../plan/explain/client.ts';
import { admits } from '../../../plan/exposure/sources.ts';
import type { Backend, ClientPosition, Plan } from '../../../plan/types.ts';
import { type Capabilities, usedAlgorithm } from '../../capabilities.ts';
import { destinationOf, type Listener } from '../listeners/listeners.ts';

export interface Candidate {
  readonly backend: Backend;
  readonly weight: number;
}

export type Verdict =
  | {
      readonly kind: 'forward';
      readonly position: ClientPosition;
      readonly algorithm: Algorithm;
      /** At least one, each with a weight above 0. */
      readonly candidates: readonly Candidate[];
    }
  | { readonly kind: 'reject' | 'drop'; readonly position: ClientPosition };

export interface Connecting {
  /** Canonical. */
  readonly client: string;
  readonly clientPort: number;
  /** The address at which it has reached the listener, canonical. */
  readonly local: string;
}

export function verdictOf(
  plan: Plan,
  listener: Listener,
  { client, clientPort, local }: Connecting,
  capabilities: Pick<Capabilities, 'algorithms'>,
): Verdict {
  const { port, frontend, protocol } = listener;
  const packet = {
    source: client,
    sourcePort: clientPort,
    protocol,
    destination: destinationOf(listener, local),
    destinationPort: frontend.port,
  };
  const { position } = clientOf(plan, packet);
  if (frontend.isFiltered && port.sources !== undefined && !admits(port.sources, client)) {
    return { kind: 'drop', position };
  }
  const { scope, whenEmpty } = frontend.rules[position];
  const algorithm = usedAlgorithm(capabilities, algorithmFor(port, frontend, position));
  const weightOf = weightFor(algorithm);
  const candidates = port[scope].map((backend) => ({ backend, weight: weightOf(backend) }));
  return candidates.length === 0
    ? { kind: whenEmpty, position }
    : { kind: 'forward', position, algorithm, candidates };
}
