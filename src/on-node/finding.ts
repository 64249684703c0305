// SPDX-License-Identifier: Apache-2.0
// What else is on the node, and what follows from it for Services. Readers below `read/` look; everything else here
// is pure: what was read becomes findings, and every view shows the same ones.

/** Names are those of the rows of `fairlead probe` and of the label `topic` of fairlead_node_findings. */
export type Topic =
  | 'forward'
  | 'host-firewall'
  | 'policy-routing'
  | 'marks'
  | 'cni'
  | 'mesh'
  | 'dns-cache'
  | 'rp-filter'
  | 'other-programs';

export interface Finding {
  readonly topic: Topic;
  /** What is there, with the chain, file, device or program by its name: `iptables: policy of FORWARD is DROP`. */
  readonly what: string;
  /** The same as long as it is told no second time; absent: `what`, which then has no list in it. */
  readonly identity?: string;
  /** What it does to Services now: `Service traffic to pods passes by the chain FAIRLEAD-FORWARD`. */
  readonly consequence: string;
  /** What to do, as a command where there is one; absent if nothing is to be done. */
  readonly advice?: string;
  /** True: Services do not work until the advice is followed. It is an Event and counts in the metric. */
  readonly breaksServices: boolean;
}
