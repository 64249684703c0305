// SPDX-License-Identifier: Apache-2.0
// What of a comparison counts. The other proxy may be late, so an unexplained difference counts when two readings have
// it, one after the other.
import { answerText } from '../../compare/answer.ts';
import type { Comparison, Difference } from '../../compare/compare.ts';
import { FOREIGN_RULE } from '../../compare/known.ts';
import { frontendOf, isUnexplained, serviceOf } from '../../compare/proof.ts';
import { type Differing, UNEXPLAINED } from '../../observe/shadow-view.ts';
import type { FoundRules } from './read-rules.ts';

export interface Compared {
  readonly rules: Pick<FoundRules, 'family' | 'name'>;
  /** The plan is the first side. */
  readonly comparison: Comparison;
}

export interface Judged {
  readonly differences: Readonly<Record<string, number>>;
  readonly differing: readonly Differing[];
  /** Those that keep an agent from serving: a rule of somebody else is there whichever proxy serves. */
  readonly barring: readonly Differing[];
  readonly unread: readonly string[];
  /** What no reading before had: it is to be read again. */
  readonly isOpen: boolean;
  /** For the next reading: what this one has found, and where differences count already, whatever the answers become. */
  readonly keys: ReadonlySet<string>;
}

/** @param before the keys of the reading before */
export function judge(compared: readonly Compared[], before: ReadonlySet<string>): Judged {
  const differences: Record<string, number> = { [UNEXPLAINED]: 0 };
  const differing = new Map<string, Differing>();
  const barring = new Map<string, Differing>();
  const keys = new Set<string>();
  let isOpen = false;
  const add = (reason: string, count: number): void => {
    differences[reason] = (differences[reason] ?? 0) + count;
  };
  for (const { rules, comparison } of compared) {
    for (const [reason, count] of comparison.reasons)
      if (reason !== FOREIGN_RULE) add(reason, count);
    for (const one of comparison.differences.filter(isUnexplained)) {
      if (isOfOthers(one)) {
        add(FOREIGN_RULE, 1);
        continue;
      }
      const service = serviceOf(one);
      const what = whatText(one, rules);
      const location = `${rules.family} ${service} ${frontendOf(one)} ${one.part}`;
      const reading = `${location}: ${what}`;
      keys.add(reading);
      if (!before.has(reading) && !before.has(location)) {
        isOpen = true;
        continue;
      }
      keys.add(location);
      if (!differing.has(service)) differing.set(service, { service, what });
      if (one.reason === undefined && !barring.has(service))
        barring.set(service, { service, what });
      add(UNEXPLAINED, 1);
    }
  }
  return {
    ...{ differences, isOpen, keys },
    differing: sorted(differing.values()),
    barring: sorted(barring.values()),
    unread: compared.flatMap(({ comparison }) =>
      comparison.unread.filter(({ isForeign }) => !isForeign).map(({ text }) => text),
    ),
  };
}

const sorted = (all: Iterable<Differing>): readonly Differing[] =>
  [...all].sort((a, b) => (a.service < b.service ? -1 : 1));

/** A firewall's rule for packets that no Service has: it holds for any proxy. */
const isOfOthers = ({ reason, claim, answers: [plan] }: Difference): boolean =>
  reason === FOREIGN_RULE && (claim === undefined || plan.verdict === 'none');

/** `10.96.0.10:80/TCP backends: plan 10.1.1.5:8080, iptables-nft 10.1.1.9:8080` */
function whatText(one: Difference, { name }: Compared['rules']): string {
  const [plan, rules] = one.answers;
  const why = one.reason === undefined ? '' : ` (${one.reason})`;
  return `${frontendOf(one)} ${one.part}${why}: plan ${answerText(plan)}, ${name} ${answerText(rules)}`;
}
