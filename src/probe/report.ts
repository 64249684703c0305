// SPDX-License-Identifier: Apache-2.0
// The report of a probe, as `-o json` prints it. Pure.
import { EXIT } from '../errors.ts';
import type { Finding } from '../on-node/finding.ts';
import { type Engine, engineOf, featuresFor, type Refused, type Served } from './choice.ts';
import { FEATURES, type FeatureName } from './features.ts';
import { type Answer, isYes, type Results, resultOf } from './results.ts';
import type { RulesInUse } from './rules-choice.ts';

export interface ProbeItem {
  readonly feature: FeatureName;
  readonly answer: Answer;
  readonly reason: string;
  readonly neededFor: string;
  /** Of the answer; absent: yes. */
  readonly consequence?: string;
  readonly remedy?: string;
}

export interface ProbeReport {
  readonly apiVersion: 'fairlead.io/v1';
  readonly kind: 'ProbeReport';
  /** `uname -r`. */
  readonly kernel: string;
  /** Of eBPF; absent: the engine asked for does not use it. */
  readonly tier?: TierReport;
  /** What a start with --engine does. */
  readonly engine: { readonly asked: Engine } & (Served | Refused);
  readonly items: readonly ProbeItem[];
  /** What else is on the node, by topic, as far as a probe can tell. */
  readonly onThisNode: readonly Finding[];
}

export const reportOf = (
  results: Results,
  kernel: string,
  asked: Engine,
  onThisNode: readonly Finding[] = [],
  inUse: RulesInUse = {},
): ProbeReport => ({
  apiVersion: 'fairlead.io/v1',
  kind: 'ProbeReport',
  kernel,
  ...(asked !== 'userspace' && { tier: tierOf(results) }),
  engine: { asked, ...engineOf(results, asked, inUse) },
  items: featuresFor(asked).map((feature) => itemOf(results, feature)),
  onThisNode,
});

function itemOf(results: Results, feature: FeatureName): ProbeItem {
  const { answer, reason } = resultOf(results, feature);
  const { neededFor, consequence, remedy } = FEATURES[feature];
  const item = { feature, answer, reason, neededFor };
  if (answer === 'yes') return item;
  if (answer === 'no') return { ...item, consequence, remedy };
  return { ...item, consequence: `if it is missing: ${consequence}`, remedy: PROBE_AGAIN };
}

const PROBE_AGAIN = 'probe as root, on the node itself';

/** Degraded: some of it is not served, or not by the engine that is best. */
export function exitCodeOf({ engine }: Pick<ProbeReport, 'engine'>): number {
  if (!engine.ok) return EXIT.unsupported;
  return engine.why.length === 0 ? EXIT.fine : EXIT.degraded;
}

// How much of eBPF this kernel has, in steps that are named after the mainline kernel that brought them. A kernel
// with backports is on the tier of what it has. Pure.
interface Tier {
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

interface TierReport {
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
