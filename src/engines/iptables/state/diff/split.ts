// SPDX-License-Identifier: Apache-2.0
// A large diff as several, to be committed one after the other. iptables-nft looks for each line's chain in the list of
// all chains that its transaction names, so that its time grows with their square: 10,000 Services in one transaction do not
// end in 450 s, in transactions of 500 chains they take 13 s.
import { type FilledChain, isNothing, type TableDiff } from './diff.ts';
import { isOfService } from './ours.ts';
import { type ChainText, rulesIn } from './text.ts';

/**
 * First the chains of Services, each Service as a whole, then those that lead to them and the jumps, last what is removed:
 * no chain is used before its rules are there, or removed as long as it is used.
 * @param most chains of a part, if no Service has more
 */
export function splitDiff(diff: TableDiff, most: number): readonly TableDiff[] {
  const { filled, jumps, removed, emptied } = diff;
  if (filled.length + removed.length + emptied.length <= most) return [diff];
  const part = (some: Partial<TableDiff>): TableDiff => ({
    ...{ name: diff.name, filled: [], jumps: [], removed: [], emptied: [] },
    ...some,
  });
  const services = filled.filter(({ chain }) => isOfService(chain));
  const others = filled.filter(({ chain }) => !isOfService(chain));
  const leadsToServices = ({ rules }: FilledChain): boolean => targetsOf(rules).some(isOfService);
  return [
    part({ filled: others.filter((chain) => !leadsToServices(chain)) }),
    ...groupsOf(services, most).map((group) => part({ filled: group })),
    part({ filled: others.filter(leadsToServices), jumps, emptied }),
    // They may jump to each other.
    ...chunksOf(removed, most).map((chunk) => part({ emptied: chunk })),
    ...chunksOf(removed, most).map((chunk) => part({ removed: chunk })),
  ].filter((one) => !isNothing(one));
}

/** In their order, in which those of a Service stand together: none jumps to a chain of a later group. */
function groupsOf(chains: readonly FilledChain[], most: number): readonly FilledChain[][] {
  const missing = new Set(chains.map(({ chain }) => chain));
  const awaited = new Set<string>();
  const groups: FilledChain[][] = [];
  let group: FilledChain[] = [];
  for (const filled of chains) {
    group.push(filled);
    missing.delete(filled.chain);
    awaited.delete(filled.chain);
    for (const target of targetsOf(filled.rules)) if (missing.has(target)) awaited.add(target);
    if (group.length < most || awaited.size > 0) continue;
    groups.push(group);
    group = [];
  }
  return [...groups, group];
}

/** A rule ends with its target, if that is a chain. */
function targetsOf(rules: ChainText): readonly string[] {
  const targets: string[] = [];
  for (const rule of rulesIn(rules)) {
    const target = rule.slice(rule.lastIndexOf(' ') + 1);
    if (target.startsWith('KUBE-')) targets.push(target);
  }
  return targets;
}

export const chunksOf = (lines: readonly string[], most: number): readonly string[][] =>
  Array.from({ length: Math.ceil(lines.length / most) }, (_, at) =>
    lines.slice(at * most, (at + 1) * most),
  );
