// SPDX-License-Identifier: Apache-2.0
// How the history on disk fares, for `status` and metrics.

export interface HistoryView {
  readonly dir: string;
  /** Of all segments. */
  readonly bytes: number;
  /** Since the start. */
  readonly writtenBytes: number;
  /** Writes that failed. */
  readonly errors: number;
  readonly lostChanges: number;
  /** Why nothing is written now; absent: it is. */
  readonly problem?: string;
}
