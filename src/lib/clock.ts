// SPDX-License-Identifier: Apache-2.0
// Time and chance as values, so that every wait can be driven by a test.

export interface Clock {
  /** Since the epoch, for people. It may be set at any time, so it says nothing of how long something took. */
  nowMs(): number;
  /** Only differences mean anything. */
  monotonicMs(): number;
  /** Runs `action` once after the delay; the result cancels it. */
  after(delayMs: number, action: () => void): () => void;
  /** In [0, 1). */
  random(): number;
}
