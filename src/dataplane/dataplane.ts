// SPDX-License-Identifier: Apache-2.0
// What the runtime asks of any dataplane, and what it answers.
// No I/O here, only types.
import type { Plan, ServiceKey } from '../plan/types.ts';

export interface FailedEntry {
  readonly id: string;
  /** What failed, why, and what to do. */
  readonly reason: string;
  /** Service it belongs to, if it belongs to one. */
  readonly service?: ServiceKey;
}

/** Partial success is normal and visible: what failed stays pending for the next sync. */
export interface ApplyReport {
  readonly applied: number;
  readonly failed: readonly FailedEntry[];
  readonly elapsedMs: number;
}

export interface Dataplane {
  /** Makes the kernel agree with the plan for these Services (`all`: every Service, and drops strays). */
  apply(plan: Plan, changed: readonly ServiceKey[] | 'all'): ApplyReport;
  /** Reads the kernel back, repairs what differs from the plan, and says what it was. */
  audit(plan: Plan): { readonly drift: readonly string[]; readonly report: ApplyReport };
  /** Lets go of the kernel without changing it: traffic flows on. */
  close(): void;
}
