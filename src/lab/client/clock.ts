// SPDX-License-Identifier: Apache-2.0
// One clock for all programs of the demo, so that a file written here can be compared with an answer heard
// in a pod.

/** Milliseconds since the epoch with fractions: Date.now() is too coarse for a connect(). */
export function nowMs(): number {
  return performance.timeOrigin + performance.now();
}
