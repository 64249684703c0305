// SPDX-License-Identifier: Apache-2.0
// How long connections of packets are kept without a packet: as long as kube-proxy's settings have conntrack keep its entries. Pure.
import type { Protocol } from '../../../model/types.ts';
import type { PacketSettings } from '../layout/packet-layout.ts';

/** Of kube-proxy's conntrack section. 0: not set. */
export interface ConntrackTimes {
  readonly tcpEstablishedSeconds: number;
  readonly tcpCloseWaitSeconds: number;
  readonly udpSeconds: number;
  readonly udpStreamSeconds: number;
}

/** kube-proxy's for TCP; it leaves UDP to nf_conntrack, whose are those of flowTimeouts(). */
export const DEFAULT_TIMES: ConntrackTimes = {
  tcpEstablishedSeconds: 86_400,
  tcpCloseWaitSeconds: 3600,
  udpSeconds: 0,
  udpStreamSeconds: 0,
};

/** What is not set, or has no setting, is as nf_conntrack's, except that a SYN waits for 20 s, not two minutes. */
export const flowTimeouts = (times: ConntrackTimes): PacketSettings['timeoutSeconds'] => ({
  tcpNew: 20,
  tcpEstablished: times.tcpEstablishedSeconds || DEFAULT_TIMES.tcpEstablishedSeconds,
  tcpHalfClosed: times.tcpCloseWaitSeconds || DEFAULT_TIMES.tcpCloseWaitSeconds,
  tcpClosed: 10,
  udpNew: times.udpSeconds || 30,
  udpEstablished: times.udpStreamSeconds || 120,
});

/**
 * After so many seconds without a packet no connection of the protocol is remembered, whatever its state: the longest of the
 * times above. A lookup table whose connections have no records is kept as long, see sync/service-port/base.ts.
 */
export const longestSilence = (
  timeouts: PacketSettings['timeoutSeconds'],
  protocol: Protocol,
): number =>
  protocol === 'UDP'
    ? Math.max(timeouts.udpNew, timeouts.udpEstablished)
    : Math.max(
        ...[timeouts.tcpNew, timeouts.tcpEstablished],
        ...[timeouts.tcpHalfClosed, timeouts.tcpClosed],
      );
