// SPDX-License-Identifier: Apache-2.0
// How much of eBPF this kernel has, in steps that are named after the mainline kernel that brought them. A kernel
// with backports is on the tier of what it has. Pure.
import type { FeatureName } from './features.ts';
import { isYes, type Results } from './results.ts';

export interface Tier {
  readonly name: string;
  /** What a kernel needs for it, besides what the tiers below need. */
  readonly needs: readonly FeatureName[];
}

export const TIERS: readonly Tier[] = [
  { name: '5.10', needs: ['socket programs'] },
  { name: '5.12', needs: ['packet programs', 'in-kernel sweep'] },
  { name: '6.1', needs: ['set_retval'] },
  { name: '6.6', needs: ['tcx', 'bpf_sock_destroy'] },
];

export interface TierReport {
  /** undefined: below the lowest. */
  readonly name: string | undefined;
  /** The next one; undefined: it is the highest. */
  readonly next: string | undefined;
  /** What the next one needs and is not there, or could not be told. */
  readonly missing: readonly FeatureName[];
}

export function tierOf(results: Results): TierReport {
  let name: string | undefined;
  for (const tier of TIERS) {
    const missing = tier.needs.filter((feature) => !isYes(results, feature));
    if (missing.length > 0) return { name, next: tier.name, missing };
    name = tier.name;
  }
  return { name, next: undefined, missing: [] };
}
