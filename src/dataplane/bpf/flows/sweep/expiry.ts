// SPDX-License-Identifier: Apache-2.0
// When a flow has expired, as is_over() and timeout_of() in bpf/packet/flow/legs.h decide it.
import { PROTOCOL_NUMBER } from '../../maps/layout.ts';
import type { FlowState, PacketSettings } from '../../maps/packet-layout.ts';
import { type Joined, stateOf } from '../join.ts';

export type Timeouts = PacketSettings['timeoutSeconds'];

/** As in bpf/packet/types.h. */
export const RESERVED_SECONDS = 120;

/** Seconds of CLOCK_MONOTONIC, in 32 bits; a packet may have been seen a second later than this. */
export const ageOf = (nowSeconds: number, seenSeconds: number): number =>
  Math.max(0, (nowSeconds - seenSeconds) | 0);

export function timeoutOf(timeouts: Timeouts, protocol: number, state: FlowState): number {
  if (protocol === PROTOCOL_NUMBER.UDP) {
    return state === 'new' ? timeouts.udpNew : timeouts.udpEstablished;
  }
  switch (state) {
    case 'new':
      return timeouts.tcpNew;
    case 'established':
      return timeouts.tcpEstablished;
    case 'half-closed':
      return timeouts.tcpHalfClosed;
    case 'closed':
      return timeouts.tcpClosed;
  }
}

export interface Moment {
  readonly timeouts: Timeouts;
  readonly nowSeconds: number;
}

/** Neither side has sent anything for as long as its state lets it live. */
export function hasExpired(
  { flow, nat }: Pick<Joined, 'nat'> & Required<Pick<Joined, 'flow'>>,
  protocol: number,
  { timeouts, nowSeconds }: Moment,
): boolean {
  const ages = [flow, nat].flatMap((one) =>
    one === undefined ? [] : [ageOf(nowSeconds, one.leg.seenSeconds)],
  );
  return Math.min(...ages) > timeoutOf(timeouts, protocol, stateOf(flow.leg, nat?.leg));
}
