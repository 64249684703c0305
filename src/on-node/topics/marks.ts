// SPDX-License-Identifier: Apache-2.0
// Marks that other programs write or ask for, compared with the bit by which rules say "masquerade". Pure.

import { couldNotTell } from '../could-not-tell.ts';
import type { Mark, MarkTarget, OwnFacts, PolicyRule, Reading } from '../facts.ts';
import type { Finding } from '../finding.ts';
import { listed } from './listed.ts';

interface Use extends Mark {
  readonly isOfPackets: boolean;
  readonly text: string;
}

const ALL = 0xffffffff;
/** iptables.masqueradeBit unless it is set. */
const DEFAULT_BIT = 14;

/** What can be read is shown although something else cannot. */
export function markFindings(
  rules: Reading<readonly PolicyRule[]>,
  targets: Reading<readonly MarkTarget[]>,
  { markBit, packets }: Pick<OwnFacts, 'markBit' | 'packets'>,
): readonly Finding[] {
  const uses = [
    ...('value' in rules ? rules.value.flatMap(ruleUse) : []),
    ...('value' in targets ? targets.value.map(targetUse) : []),
  ];
  const clashes = uses.filter((use) => clashesWith(use, markBit));
  const others = uses.filter((use) => !clashes.includes(use));
  return [
    ...clashes.map((use) => clash(use, markBit ?? 0)),
    ...(others.length === 0 ? [] : [used(others, effectOf(others, markBit, packets))]),
    ...[rules, targets].flatMap((one) =>
      'unread' in one ? [couldNotTell('marks', one.unread)] : [],
    ),
  ];
}

const ruleUse = ({ family, priority, text, mark }: PolicyRule): readonly Use[] =>
  mark === undefined
    ? []
    : [{ ...mark, isOfPackets: true, text: `${family} ip rule ${priority}: ${text}` }];

const targetUse = ({ family, table, chain, target, ...mark }: MarkTarget): Use => ({
  ...mark,
  text: `${target} ${markText(mark)} in ${family} ${table} ${chain}`,
});

/**
 * A rule that compares, or restores, all bits at once means marks of its own; one that names some bits and ours among them uses
 * ours, too. Marks of connections alone are not read by rules of Services.
 */
function clashesWith({ value, mask, isOfPackets }: Use, bit: number | undefined): boolean {
  if (bit === undefined || !isOfPackets) return false;
  const has = (bits: number): boolean => ((bits >>> bit) & 1) === 1;
  return has(value) || (has(mask) && mask >>> 0 !== ALL);
}

function clash({ text }: Use, bit: number): Finding {
  return {
    topic: 'marks',
    what: text,
    consequence: `it uses the bit ${hex(2 ** bit)}, by which rules of Services say "masquerade": connections lose the client's address, or their way`,
    advice: 'set iptables.masqueradeBit to a bit that nobody uses, here and at the kubelet',
    breaksServices: true,
  };
}

const used = (uses: readonly Use[], consequence: string): Finding => ({
  topic: 'marks',
  what: listed([...new Set(uses.map(({ text }) => text))]),
  consequence,
  breaksServices: false,
});

function effectOf(
  uses: readonly Use[],
  bit: number | undefined,
  packets: OwnFacts['packets'],
): string {
  if (bit !== undefined) return `none for Services: rules use the bit ${hex(2 ** bit)} alone`;
  const isClash = uses.some((use) => clashesWith(use, DEFAULT_BIT));
  if (packets !== undefined || !isClash) return 'none for Services: eBPF sets no marks';
  return `none by eBPF, which sets no marks; by rules, a clash with their bit ${hex(2 ** DEFAULT_BIT)} unless iptables.masqueradeBit is another: connections lose the client's address, or their way`;
}

const markText = ({ value, mask }: Mark): string =>
  mask >>> 0 === ALL ? hex(value) : `${hex(value)}/${hex(mask)}`;

const hex = (value: number): string => `0x${(value >>> 0).toString(16)}`;
