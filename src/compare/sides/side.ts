// SPDX-License-Identifier: Apache-2.0
// One of the two that are compared: rules that are in the kernel, or the plan.
import type { Answer, Reason } from '../answer.ts';
import type { Range } from '../rules/ranges.ts';
import type { ClientClass, Destination } from '../walk/path.ts';
import type { Reached } from '../walk/reach.ts';

export type Question = Pick<Destination, 'address'> & Partial<Destination>;

export type SideKind = 'plan' | 'iptables' | 'nftables' | 'ipvs';

/** What a side knows of the Service at a destination, for the reasons of differences. */
export interface Claim {
  /** `default/web` */
  readonly service: string;
  /** More than one Service asks for it. */
  readonly isContested: boolean;
  /** Of all Services that ask for it, at any of their ports: `10.1.1.5:8080`. */
  readonly endpoints: ReadonlySet<string>;
  /** Fields of it were rejected: `spec.loadBalancerSourceRanges[0]`. */
  readonly rejected: readonly string[];
}

export interface Side {
  readonly kind: SideKind;
  /** `iptables-nft`, `plan` */
  readonly name: string;
  /** Canonical addresses that it tells apart. */
  addresses(): Iterable<string>;
  /** Addresses at which kube-proxy's mode nftables has NodePorts, by its set of that name. */
  nodePortAddresses(): Iterable<string>;
  /** Ranges of addresses that it tells apart. */
  ranges(): Iterable<Range>;
  /** With the port and protocol: what it tells apart there; without: also its ports. */
  reach(question: Question): Reached;
  /** One for each class, in the same order; equal ones may be identical. */
  answers(destination: Destination, classes: readonly ClientClass[]): readonly Answer[];
  /** Rules of which a test or an action is not known: they count as rules that match nothing. */
  unread(): Iterable<Reason>;
  /** undefined: no Service has it, or the side knows no Services. */
  claimAt(destination: Destination): Claim | undefined;
}

/** What a node knows that neither rules nor objects say. */
export interface NodeAddresses {
  /** Canonical; loopback addresses need not be among them. */
  readonly own: readonly string[];
}
