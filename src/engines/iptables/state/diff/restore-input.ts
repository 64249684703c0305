// SPDX-License-Identifier: Apache-2.0
// What iptables-restore --noflush is given. Chains are named first, which makes or empties them, so that rules may jump to any of
// them, and are deleted last; what stands before a COMMIT takes effect as a whole.
import { type FilledChain, isNothing, type TableDiff } from './diff.ts';
import { splitDiff } from './split.ts';

/**
 * '' if there is nothing to do.
 * @param chainsAtOnce a table with more of them is written in several transactions
 */
export function restoreInput(
  diffs: readonly TableDiff[],
  chainsAtOnce = Number.POSITIVE_INFINITY,
): string {
  const lines = diffs
    .filter((diff) => !isNothing(diff))
    .flatMap((diff) => splitDiff(diff, chainsAtOnce))
    .flatMap((diff) => [`*${diff.name}`, ...linesOf(diff), 'COMMIT']);
  // With the last end of line, so that the text is made only once.
  return lines.length === 0 ? '' : [...lines, ''].join('\n');
}

/** Not rule by rule: of a large cluster these are half a million. */
const linesOfRules = ({ chain, rules }: FilledChain): string =>
  `-A ${chain} ${rules.replaceAll('\n', `\n-A ${chain} `)}`;

function linesOf({ filled, jumps, removed, emptied }: TableDiff): readonly string[] {
  const named = filled.filter(({ isEmptied }) => isEmptied).map(({ chain }) => chain);
  // iptables-legacy keeps its chains sorted, and compares a new one with those before it from the start of an index that it renews
  // only after 355 new ones: where each is the first of all it compares once.
  const chains = [...named, ...emptied, ...removed].sort().reverse();
  return [
    ...chains.map((chain) => `:${chain} - [0:0]`),
    ...filled.filter(({ rules }) => rules !== '').map(linesOfRules),
    ...jumps.flatMap(({ from, rule, count }) => Array<string>(count).fill(`-D ${from} ${rule}`)),
    // The last one inserted stands first.
    ...jumps.toReversed().map(({ from, rule }) => `-I ${from} ${rule}`),
    ...removed.map((chain) => `-X ${chain}`),
  ];
}
