// SPDX-License-Identifier: Apache-2.0
// The interface between the XDP follower, which says what is tried and used on which device, and kernel-xdp.ts, which does it.
import type { XdpFamily } from './links.ts';
import type { XdpTraffic } from './losses.ts';

export interface XdpTarget {
  readonly ifindex: number;
  readonly name: string;
  /** Its Ethernet address. */
  readonly mac: string;
  readonly use: 'both' | 'send';
  /** Of a bond, by ifindex: what comes in by it is theirs. */
  readonly ports: readonly number[];
}

/** A device that is being tried: nothing is forwarded yet. */
export interface Trial {
  /** Frames of the test that its driver took, of those that were given to it. */
  send(): { readonly taken: number; readonly of: number };
  /** Frames that have come in by XDP since the beginning. */
  received(): number;
  /** The programs that forward take the place of the one that counts. Ends the trial. */
  trust(): void;
  /** Removes what it attached. Idempotent. */
  end(): void;
}

/** Functions throw what the kernel answered. */
export interface XdpKernel {
  /** Forgets nothing of the kernel's: devices on which an earlier agent has left XDP, which now run this one's program. */
  adopt(): readonly { readonly ifindex: number; readonly name: string }[];
  /** undefined: everything is loaded. Rejects with what the kernel answered. */
  load(): Promise<void> | undefined;
  begin(target: XdpTarget): Trial;
  /** Forgets its counters, too. Fine if it, or the device, is gone. */
  detach(ifindex: number): void;
  /** The pin gets the new name. */
  rename(ifindex: number, name: string): void;
  /** False if somebody else has removed it. */
  isAttached(ifindex: number): boolean;
  /** What frames of these devices belong to, in place of what was set before. Fine if nothing is loaded. */
  setFamilies(families: readonly XdpFamily[]): void;
  /** Since it is watched. */
  traffic(ifindex: number): XdpTraffic;
}
