// SPDX-License-Identifier: Apache-2.0
// What the rules depend on besides the plan.
import type { Family } from '../../../model/types.ts';
import type { LocalDetector } from '../../../plan/types.ts';

export interface RenderSettings {
  /** 0..31: the bit of a packet's mark that says "masquerade" (iptables.masqueradeBit). */
  readonly masqueradeBit: number;
  /** MASQUERADE --random-fully, from iptables 1.6.2 on. */
  readonly hasRandomFully: boolean;
  /** NodePorts on 127.0.0.0/8, too (iptables.localhostNodePorts); they need route_localnet. Never on ::1. */
  readonly hasLocalhostNodePorts: boolean;
  /** nf_conntrack_tcp_be_liberal: only resets outside the window are INVALID, so nothing INVALID is dropped. */
  readonly isTcpLiberal: boolean;
  /** Objects of nfacct that exist: only those may be named in rules. */
  readonly accounting: readonly Accounting[];
}

/** The names of kube-proxy's counters. */
export type Accounting = 'ct_state_invalid_dropped_pkts' | 'localhost_nps_accepted_pkts';

/** What the rules of a Service depend on besides its plan, in one family. */
export interface ServiceContext {
  readonly family: Family;
  readonly detector: LocalDetector | undefined;
  /** Without comments that name each endpoint: 40% of the text. */
  readonly isLargeCluster: boolean;
  readonly countsLocalhostNodePorts: boolean;
  /** Of this family. */
  readonly serviceCidrs: readonly string[];
}
