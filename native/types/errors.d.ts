// SPDX-License-Identifier: Apache-2.0
// What every function throws.

export interface NativeError extends Error {
  /**
   * The name of an errno ('E2BIG'), or 'ARGUMENT' (refused before any call), 'CLOSED' (its handle), 'STATE' (an object that is not
   * loaded yet, or already), 'INCOMPATIBLE' (a pin that the object cannot use), 'VERIFIER' (the kernel refuses a program).
   */
  code: string;
  /** Positive; 0 if no system call failed. */
  errno: number;
  /** The function of libbpf or system call that failed, or the method whose argument was refused. */
  op: string;
  /** Verifier refusals only: the whole log; the message holds its last useful lines. */
  log?: string;
}
