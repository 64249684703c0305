// SPDX-License-Identifier: Apache-2.0
// What an explanation is made of.

/** One rule that was looked at, what it said, and why. */
export interface ExplainStep {
  readonly rule: string;
  readonly result: string;
  readonly reason: string;
}

export interface Explanation {
  /** none = the packet is not the proxy's: the node routes it as if there were no Services. */
  readonly verdict: 'forward' | 'reject' | 'drop' | 'none';
  /** `10.96.0.10:80/TCP`. */
  readonly frontend: string | null;
  /** `namespace/name`. */
  readonly service: string | null;
  /** `10.1.1.5:8080`, `[fd00:1::5]:8080`, in the plan's order; one of these is chosen. */
  readonly backends: readonly string[];
  /** The one of them that this very connection gets, where that is known beforehand: by a lookup table. */
  readonly chosen?: string;
  /** Does the backend see this node's address instead of the client's? */
  readonly masquerade: boolean;
  readonly steps: readonly ExplainStep[];
}
