// SPDX-License-Identifier: Apache-2.0
// What iptables-restore --noflush is given. Chains are named first, which makes or empties them, so that rules may jump to any of
// them, and are deleted last; each table takes effect as a whole at its COMMIT.
import { isNothing, type TableDiff } from './diff.ts';

/** '' if there is nothing to do. */
export const restoreInput = (diffs: readonly TableDiff[]): string =>
  diffs
    .filter((diff) => !isNothing(diff))
    .map((diff) => `*${diff.name}\n${linesOf(diff).join('\n')}\nCOMMIT\n`)
    .join('');

function linesOf({ filled, jumps, removed, emptied }: TableDiff): readonly string[] {
  const named = filled.filter(({ isEmptied }) => isEmptied).map(({ chain }) => chain);
  return [
    ...[...named, ...emptied, ...removed].map((chain) => `:${chain} - [0:0]`),
    ...filled.flatMap(({ chain, rules }) => rules.map((rule) => `-A ${chain} ${rule}`)),
    ...jumps.flatMap(({ from, rule, count }) => Array<string>(count).fill(`-D ${from} ${rule}`)),
    // The last one inserted stands first.
    ...jumps.toReversed().map(({ from, rule }) => `-I ${from} ${rule}`),
    ...removed.map((chain) => `-X ${chain}`),
  ];
}
