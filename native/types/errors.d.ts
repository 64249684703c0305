// SPDX-License-Identifier: Apache-2.0
// What every function throws.

export interface NativeError extends Error {
  code: string;
  errno: number;
  op: string;
  /** Verifier refusals only: the whole log; the message holds its last useful lines. */
  log?: string;
}
