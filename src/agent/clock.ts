// SPDX-License-Identifier: Apache-2.0
// The two clocks of a machine. A wall clock may be set at any time, so it says nothing of how long
// something took or waited.

export interface Clocks {
  /** Since the epoch, for people. */
  nowMs(): number;
  /** Only differences mean anything. */
  monotonicMs(): number;
}

export const SYSTEM_CLOCKS: Clocks = { nowMs: Date.now, monotonicMs: () => performance.now() };
