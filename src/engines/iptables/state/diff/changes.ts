// SPDX-License-Identifier: Apache-2.0
// A diff as lines for people: what was wrong with which chain.
import { isNothing, type TableDiff } from './diff.ts';
import { type HeldTables, rulesIn } from './text.ts';

export interface ChainChange {
  readonly table: string;
  readonly chain: string;
  /** `nat KUBE-SERVICES: missing` */
  readonly text: string;
}

/** How many chains differ. */
export const countChanges = (diffs: readonly TableDiff[]): number =>
  diffs.reduce(
    (sum, { filled, jumps, removed, emptied }) =>
      sum + filled.length + jumps.length + removed.length + emptied.length,
    0,
  );

/** @param held before the diff is applied */
export const changesOf = (diffs: readonly TableDiff[], held: HeldTables): readonly ChainChange[] =>
  diffs.filter((diff) => !isNothing(diff)).flatMap((diff) => changesIn(diff, held));

function changesIn(
  { name, filled, jumps, removed, emptied }: TableDiff,
  held: HeldTables,
): readonly ChainChange[] {
  const change = (chain: string, what: string): ChainChange => ({
    ...{ table: name, chain, text: `${name} ${chain}: ${what}` },
  });
  return [
    ...filled.map(({ chain, isNew, rules }) =>
      change(
        chain,
        isNew
          ? 'missing'
          : differenceText(rulesIn(held.get(name)?.get(chain) ?? ''), rulesIn(rules)),
      ),
    ),
    ...jumps.map(({ from, rule, count }) =>
      change(
        from,
        count === 0 ? `missing ${listed([rule])}` : `has ${listed([rule])} ${count} times`,
      ),
    ),
    ...[...removed, ...emptied].map((chain) => change(chain, 'of no Service')),
  ];
}

/** ``missing `-j A` and 2 more; has `-j B` ``, or that only the order is another. */
function differenceText(before: readonly string[], wanted: readonly string[]): string {
  const missing = without(wanted, before);
  const foreign = without(before, wanted);
  const parts = [
    ...(missing.length > 0 ? [`missing ${listed(missing)}`] : []),
    ...(foreign.length > 0 ? [`has ${listed(foreign)}`] : []),
  ];
  return parts.length === 0 ? 'rules in another order' : parts.join('; ');
}

function without(all: readonly string[], others: readonly string[]): readonly string[] {
  const known = new Set(others);
  return all.filter((one) => !known.has(one));
}

const listed = ([first = '', ...others]: readonly string[]): string =>
  others.length === 0 ? `\`${first}\`` : `\`${first}\` and ${others.length} more`;
