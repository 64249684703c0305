// SPDX-License-Identifier: Apache-2.0
// What the chains of a packet filter do to packets of one kind, whatever program wrote them. Pure.

/** How many of the packets in question match: all, some or it cannot be told, none. */
export type Fit = 'all' | 'some' | 'none';

export type Verdict =
  | { readonly kind: 'accept' | 'drop' | 'return' | 'continue' }
  | { readonly kind: 'jump' | 'goto'; readonly chain: string };

export interface FilterRule {
  /** As its program prints it. */
  readonly text: string;
  readonly fit: Fit;
  readonly verdicts: readonly Verdict[];
}

/** A chain that a hook of netfilter calls, with those that it may jump to. */
export interface BaseChain {
  /** `iptables: chain FORWARD of table filter`. */
  readonly what: string;
  readonly policy: 'accept' | 'drop';
  readonly rules: readonly FilterRule[];
  readonly chains: ReadonlyMap<string, readonly FilterRule[]>;
}

/** Chains may not be nested deeper in the kernel either. */
const DEEPEST = 16;
const ORDER: readonly Fit[] = ['none', 'some', 'all'];

export const leastFit = (fits: readonly Fit[]): Fit =>
  ORDER.find((one) => fits.includes(one)) ?? 'all';

export const mostFit = (fits: readonly Fit[]): Fit =>
  ORDER.findLast((one) => fits.includes(one)) ?? 'none';

export const opposite = (fit: Fit): Fit =>
  fit === 'all' ? 'none' : fit === 'none' ? 'all' : 'some';

type Outcome =
  | { readonly kind: 'accept' | 'return' }
  | { readonly kind: 'drop'; readonly by: string };

/**
 * What drops the packets in general: the text of a rule that all of them match, or of the policy. undefined: they pass.
 * A rule that only some of them match, such as that of a NetworkPolicy, decides nothing.
 */
export function generalDrop(base: BaseChain): string | undefined {
  const outcome = inGeneral(base.rules, base, 0);
  if (outcome.kind === 'drop') return `${base.what}: ${outcome.by}`;
  if (outcome.kind === 'accept' || base.policy === 'accept') return undefined;
  return `${base.what}: its policy is DROP`;
}

function inGeneral(rules: readonly FilterRule[], base: BaseChain, depth: number): Outcome {
  for (const { text, fit, verdicts } of rules) {
    const [verdict] = verdicts;
    if (fit !== 'all' || verdict === undefined || verdicts.length > 1) continue;
    if (verdict.kind === 'drop') return { kind: 'drop', by: text };
    if (verdict.kind === 'accept' || verdict.kind === 'return') return { kind: verdict.kind };
    if (!('chain' in verdict) || depth >= DEEPEST) continue;
    const inside = inGeneral(base.chains.get(verdict.chain) ?? [], base, depth + 1);
    if (inside.kind !== 'return' || verdict.kind === 'goto') return inside;
  }
  return { kind: 'return' };
}

/** The text of a rule that may drop some of the packets; undefined: none does. */
export function possibleDrop(base: BaseChain): string | undefined {
  const found = firstDrop(base.rules, base, new Set());
  if (found !== undefined) return `${base.what}: ${found}`;
  const isOpen = base.policy === 'accept' || inGeneral(base.rules, base, 0).kind === 'accept';
  return isOpen ? undefined : `${base.what}: its policy is DROP`;
}

function firstDrop(
  rules: readonly FilterRule[],
  base: BaseChain,
  seen: Set<string>,
): string | undefined {
  for (const { text, fit, verdicts } of rules) {
    if (fit === 'none') continue;
    for (const verdict of verdicts) {
      if (verdict.kind === 'drop') return text;
      if ('chain' in verdict && !seen.has(verdict.chain)) {
        seen.add(verdict.chain);
        const inside = firstDrop(base.chains.get(verdict.chain) ?? [], base, seen);
        if (inside !== undefined) return inside;
      }
    }
    const [only] = verdicts;
    const isEnd = only?.kind === 'accept' || only?.kind === 'return' || only?.kind === 'goto';
    if (fit === 'all' && isEnd) return undefined;
  }
  return undefined;
}
