// SPDX-License-Identifier: Apache-2.0
// Rendered rulesets as the text that is compared with what is held. Chains of a Service that did not change are the same
// objects as in the ruleset before: they are not printed again, and are not among what has changed since then.
import type { Family } from '../../../model/types.ts';
import { isServiceChain } from '../rules/names.ts';
import { printJumpRule, printRule } from '../rules/print.ts';
import type { Chain, Rule, Ruleset, Table, TableName } from '../rules/types.ts';
import type { WantedTable } from './diff/diff.ts';
import { type ChainText, textOfRules } from './diff/text.ts';

/** What a call returns may be used until the next one. */
export type PrintRuleset = (ruleset: Ruleset) => readonly WantedTable[];

interface PrintedTable {
  /** As they were rendered last. */
  chains: readonly Chain[];
  readonly texts: Map<string, ChainText>;
}

interface ChainPrinter {
  print(chain: Chain): ChainText;
  /** Without printing all of them. */
  isSame(one: Chain, other: Chain): boolean;
}

export function rulesetPrinter(family: Family): PrintRuleset {
  const tables = new Map<TableName, PrintedTable>();
  const printer = chainPrinter(family);
  let since: readonly WantedTable[] = [];
  const wantedTable = ({ name, chains, jumps }: Table): WantedTable => {
    const printed = tables.get(name) ?? { chains: [], texts: new Map() };
    tables.set(name, printed);
    const changed = { since, chains: reprint(printed, chains, printer) };
    return {
      name,
      get chains() {
        return new Map(chains.map((chain) => [chain.name, printed.texts.get(chain.name) ?? '']));
      },
      jumps: jumps.map(({ from, rule }) => ({ from, rule: printJumpRule(rule, family) })),
      changed,
    };
  };
  return (ruleset) => {
    since = ruleset.tables.map(wantedTable);
    return since;
  };
}

const NO_CHANGES: ReadonlyMap<string, undefined> = new Map();

/** @returns chains that are new, other than before or, without a text, gone */
function reprint(
  printed: PrintedTable,
  chains: readonly Chain[],
  { print, isSame }: ChainPrinter,
): ReadonlyMap<string, ChainText | undefined> {
  const { chains: before, texts } = printed;
  if (before === chains) return NO_CHANGES;
  printed.chains = chains;
  // The change of one Service is a small part in the middle.
  const least = Math.min(before.length, chains.length);
  const isSameAt = (at: number, beforeAt: number): boolean => {
    const [one, other] = [chains[at], before[beforeAt]];
    return one !== undefined && other !== undefined && isSame(one, other);
  };
  let start = 0;
  while (start < least && isSameAt(start, start)) start += 1;
  let end = 0;
  while (end < least - start && isSameAt(chains.length - 1 - end, before.length - 1 - end))
    end += 1;
  const changed = new Map<string, ChainText | undefined>();
  const gone = new Map(
    before.slice(start, before.length - end).map((chain) => [chain.name, chain]),
  );
  for (const chain of chains.slice(start, chains.length - end)) {
    const { name } = chain;
    const known = gone.get(name);
    gone.delete(name);
    if (known !== undefined && isSame(chain, known)) continue;
    const text = print(chain);
    if (text !== texts.get(name)) changed.set(name, text);
    texts.set(name, text);
  }
  for (const name of gone.keys()) {
    texts.delete(name);
    changed.set(name, undefined);
  }
  return changed;
}

function chainPrinter(family: Family): ChainPrinter {
  const textOf = rulePrinter(family);
  return {
    // Those of a Service are printed with their chain, and made for it: a text for each would only be thrown away.
    print: ({ name, rules }) =>
      textOfRules(rules.map(isServiceChain(name) ? (rule) => printRule(rule, family) : textOf)),
    // Shared chains are made anew each time, most of their rules are not.
    isSame: (one, other) =>
      one === other ||
      (one.name === other.name &&
        !isServiceChain(one.name) &&
        one.rules.length === other.rules.length &&
        one.rules.every((rule, at) => {
          const before = other.rules[at];
          return rule === before || (before !== undefined && textOf(rule) === textOf(before));
        })),
  };
}

/** A rule of a shared chain is kept with its text as long as somebody else keeps it. */
function rulePrinter(family: Family): (rule: Rule) => string {
  const texts = new WeakMap<Rule, string>();
  return (rule) => {
    const text = texts.get(rule) ?? printRule(rule, family);
    texts.set(rule, text);
    return text;
  };
}
