// SPDX-License-Identifier: Apache-2.0
// UDP flows of a retired engine whose endpoint may be gone. Nobody tells its programs: they would send a client that keeps its
// port there for as long as it asks.
import { FAMILIES } from '../../../../model/types.ts';
import { deleteLeg, elementsOf, type FlowTables, latin1 } from '../../flows/flow-tables.ts';
import { type Joined, joinFlow } from '../../flows/join.ts';
import { decodeTuple } from '../../flows/tuple.ts';
import { protocolOf } from '../../maps/layout.ts';
import { withFormerFlows } from './former-flows.ts';

/** A question that has been sent just now may yet be answered. */
const ANSWER_SECONDS = 2;

/** Datagrams of both sides. */
interface Exchange {
  readonly asked: number;
  readonly answered: number;
}

/** By the key of the flow. */
export type Exchanges = ReadonlyMap<string, Exchange>;

type UdpFlow = Joined & Required<Pick<Joined, 'flow'>>;

export function exchangesOf(bpfRoot: string): Exchanges {
  const found = new Map<string, Exchange>();
  withFormerFlows(bpfRoot, (flows) => {
    for (const each of udpFlows(flows))
      found.set(latin1(each.joined.flow.key), exchange(each.joined));
  });
  return found;
}

/**
 * Ends those that have been asked since `before`, and have not answered. Their next datagram is the next engine's, which knows the
 * endpoints there are; so is that of a flow in which nobody answers ever.
 */
export function endUnanswered(bpfRoot: string, before: Exchanges): void {
  const now = Number(process.hrtime.bigint() / 1_000_000_000n);
  withFormerFlows(bpfRoot, (flows) => {
    for (const { family, joined } of [...udpFlows(flows)]) {
      const then = before.get(latin1(joined.flow.key));
      if (then === undefined || !isUnanswered(joined, then, now)) continue;
      // The flow leg first: a request that found it alone would make the others again.
      deleteLeg(flows[family].flow, joined.flow.key);
      if (joined.snat !== undefined) deleteLeg(flows[family].snat, joined.snat.key);
      if (joined.nat !== undefined) deleteLeg(flows[family].nat, joined.nat.key);
    }
  });
}

function isUnanswered(joined: UdpFlow, then: Exchange, nowSeconds: number): boolean {
  const { asked, answered } = exchange(joined);
  if (answered > then.answered || asked <= then.asked) return false;
  return asked > then.asked + 1 || nowSeconds - joined.flow.leg.seenSeconds >= ANSWER_SECONDS;
}

const exchange = ({ flow, nat }: UdpFlow): Exchange => ({
  asked: flow.leg.packets,
  answered: nat?.leg.packets ?? 0,
});

function* udpFlows(
  flows: FlowTables,
): Generator<{ readonly family: (typeof FAMILIES)[number]; readonly joined: UdpFlow }> {
  for (const family of FAMILIES) {
    for (const { key } of elementsOf(flows[family].flow)) {
      if (protocolOf(decodeTuple(key, family).protocol) !== 'UDP') continue;
      const joined = joinFlow(flows, family, key);
      if (joined !== undefined) yield { family, joined };
    }
  }
}
