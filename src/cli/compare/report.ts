// SPDX-License-Identifier: Apache-2.0
// The outcome of `compare`, for people and for programs.
import { answerText } from '../../compare/answer.ts';
import type { Comparison, Difference } from '../../compare/compare.ts';
import { ANNOTATION, FOREIGN_RULE, KNOWN } from '../../compare/known.ts';
import { frontendOf, isUnexplained, serviceOf } from '../../compare/proof.ts';
import { rangeText } from '../../compare/rules/ranges.ts';
import type { ClientClass } from '../../compare/walk/path.ts';
import type { Pair } from './sides.ts';

export interface Outcome {
  readonly pair: Pair;
  readonly comparison: Comparison;
}

const REASONS: ReadonlyMap<string, string> = new Map([
  [ANNOTATION, 'an annotation fairlead.io/… of the Service, which kube-proxy does not know'],
  [FOREIGN_RULE, 'a rule that neither proxy has written'],
  ...KNOWN.map(({ name, rules, plan }) => [name, `rules: ${rules}; plan: ${plan}`] as const),
]);

const MOST_CLIENTS = 3;

function clientsText(clients: readonly ClientClass[]): string {
  const texts = [
    ...new Set(
      clients.map(({ sources, device }) =>
        device === undefined ? `this node (${rangeText(sources)})` : rangeText(sources),
      ),
    ),
  ];
  const more = texts.length - MOST_CLIENTS;
  return `${texts.slice(0, MOST_CLIENTS).join(', ')}${more > 0 ? ` and ${more} more ranges` : ''}`;
}

export function reportText(outcomes: readonly Outcome[], isWide: boolean): string {
  const lines = outcomes.flatMap(({ pair, comparison }) => {
    const [left, right] = pair.sides;
    const { classes, destinations, differences, reasons, unread } = comparison;
    const open = differences.filter(isUnexplained);
    return [
      `${pair.family}: ${left.name} and ${right.name}, ${classes} classes of clients at ${destinations} destinations: ${sumText(comparison)}`,
      ...(isWide ? differences : open).flatMap((one) => differenceLines(one, pair)),
      ...knownLines(reasons),
      ...unread.map(
        ({ text, isForeign }) =>
          `  ${isForeign ? 'rule of no proxy' : 'rule'} not read, counts as one that matches nothing: ${text}`,
      ),
    ];
  });
  return lines.join('\n');
}

function sumText({ differences, reasons, unread }: Comparison): string {
  const open = differences.filter(isUnexplained).length;
  let known = 0;
  for (const [reason, count] of reasons) if (reason !== FOREIGN_RULE) known += count;
  const sum =
    open + known === 0
      ? 'no difference'
      : `${open} unexplained ${open === 1 ? 'difference' : 'differences'}, ${known} known`;
  return unread.length === 0 ? sum : `${sum}; rules that were not read: ${unread.length}`;
}

function differenceLines(one: Difference, { sides }: Pair): readonly string[] {
  const [left, right] = sides;
  const why = one.reason === undefined ? '' : ` (${one.reason})`;
  return [
    `  ${serviceOf(one)} ${frontendOf(one)} from ${clientsText(one.clients)}: ${one.part} differs${why}`,
    `    ${left.name}: ${answerText(one.answers[0])}`,
    `    ${right.name}: ${answerText(one.answers[1])}`,
    ...one.answers.flatMap(({ because }, index) =>
      because.map(({ text }) => `      ${sides[index]?.name}: ${text}`),
    ),
  ];
}

/** How often each known difference was met, and what it is. */
function knownLines(counts: Comparison['reasons']): readonly string[] {
  return [...counts]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([names, count]) => {
      const texts = names.split(', ').map((name) => REASONS.get(name) ?? name);
      return `  ${names}, ${count} times: ${texts.join('; ')}`;
    });
}

export function reportValue(outcomes: readonly Outcome[]): object {
  return {
    apiVersion: 'fairlead.io/v1',
    kind: 'ComparisonReport',
    comparisons: outcomes.map(({ pair, comparison }) => ({
      family: pair.family,
      sides: pair.sides.map(({ name }) => name),
      destinations: comparison.destinations,
      classes: comparison.classes,
      unread: comparison.unread.map(({ text }) => text),
      differences: comparison.differences.map((one) => ({
        service: one.claim?.service ?? null,
        frontend: frontendOf(one),
        clients: one.clients.map(({ sources, device }) => ({
          addresses: rangeText(sources),
          device: device?.trim() ?? null,
        })),
        part: one.part,
        answers: one.answers.map(({ verdict, backends, affinitySeconds = null, because }) => ({
          verdict,
          backends,
          affinitySeconds,
          because: because.map(({ text }) => text),
        })),
        reason: one.reason ?? null,
      })),
    })),
  };
}
