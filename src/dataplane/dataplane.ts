// SPDX-License-Identifier: Apache-2.0
// What the runtime asks of any dataplane, and the language all of them speak: entries.
// Floor 3: no I/O here, only types.
import type { Plan, ServiceKey } from '../plan/types.ts';

/** One fact as the kernel should hold it. `text` is what goldens, diffs and people see. */
export interface Entry {
  /** Canonical, unique within the dataplane, e.g. `frontend4 10.96.0.10:80/TCP`. */
  readonly id: string;
  readonly text: string;
}

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
