// SPDX-License-Identifier: Apache-2.0
// What is traced through rules: a packet, what the node knows, and a path that the packet may take.

import type { Rule, TableName } from '../../../src/engines/iptables/rules/types.ts';
import type { Protocol } from '../../../src/model/types.ts';

export type Hook = 'PREROUTING' | 'INPUT' | 'FORWARD' | 'OUTPUT' | 'POSTROUTING';

export interface TracedPacket {
  readonly protocol: Protocol | 'ICMP';
  /** Canonical. */
  readonly source: string;
  readonly sourcePort: number;
  readonly destination: string;
  readonly destinationPort: number;
  /** undefined: a process of this node sends it. */
  readonly inInterface: string | undefined;
  /** What conntrack says; rules of nat see only the first packet of a connection, which is NEW. */
  readonly state: 'NEW' | 'ESTABLISHED' | 'RELATED' | 'INVALID';
  readonly mark: number;
  /** A rule has chosen the destination of its connection. */
  readonly isDnat: boolean;
  /** It is the one that the packet had: then conntrack's status does not say DNAT. */
  readonly isUnchanged?: boolean;
}

/** What rules ask the kernel for. */
export interface World {
  /** Is it an address of this node? */
  isLocal(address: string): boolean;
  /** Is the address in this list of xt_recent, and seen within so many seconds? */
  isRecent(list: string, address: string, seconds: number): boolean;
  /** Of packets that are masqueraded. */
  readonly snatAddress: string;
  /** Built-in chains of filter with policy DROP, as a host firewall sets it. */
  readonly droppedByPolicy?: readonly Hook[];
}

export interface MatchedRule {
  readonly table: TableName;
  readonly hook: Hook;
  readonly chain: string;
  readonly rule: Rule;
}

/** One way through the rules: where they choose at random there are several. */
export interface Path {
  /** As the rules have changed it. */
  readonly packet: TracedPacket;
  readonly probability: number;
  readonly verdict: 'accept' | 'drop' | 'reject';
  readonly isMasqueraded: boolean;
  /** Lists of xt_recent that have the client now. */
  readonly remembered: readonly string[];
  /** In order. */
  readonly matched: readonly MatchedRule[];
}
