// SPDX-License-Identifier: Apache-2.0

export interface PortRange {
  readonly first: number;
  /** Itself part of the range. */
  readonly last: number;
}
