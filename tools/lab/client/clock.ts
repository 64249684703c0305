// SPDX-License-Identifier: Apache-2.0
// One clock for all programs of the demo, so that the time of a written file can be compared with that of an
// answer in a pod.

/** Milliseconds since the epoch with fractions: Date.now() is too coarse for a connect(). */
export function nowMs(): number {
  return performance.timeOrigin + performance.now();
}
