// SPDX-License-Identifier: Apache-2.0
// A rendered ruleset as the text that is compared with what is held. Chains and rules are printed once: those of a Service that
// did not change are the same objects as in the ruleset before.
import type { Family } from '../../model/types.ts';
import type { WantedTable } from './diff/diff.ts';
import { textOfRules } from './diff/text.ts';
import { isServiceChain } from './rules/names.ts';
import { printJumpRule, printRule } from './rules/print.ts';
import type { Chain, Rule, Ruleset, Table } from './rules/types.ts';

export type PrintRuleset = (ruleset: Ruleset) => readonly WantedTable[];

/** Of one family: an object that is printed is kept with its text as long as somebody else keeps it. */
export function rulesetPrinter(family: Family): PrintRuleset {
  const chainTexts = new WeakMap<Chain, string>();
  const ruleTexts = new WeakMap<Rule, string>();
  const textOfRule = (rule: Rule): string => {
    const text = ruleTexts.get(rule) ?? printRule(rule, family);
    ruleTexts.set(rule, text);
    return text;
  };
  // Those of a Service are printed with their chain, and made for it: a text for each would only be thrown away.
  const printerOf = ({ name }: Chain): ((rule: Rule) => string) =>
    isServiceChain(name) ? (rule) => printRule(rule, family) : textOfRule;
  const textOfChain = (chain: Chain): string => {
    const text = chainTexts.get(chain) ?? textOfRules(chain.rules.map(printerOf(chain)));
    chainTexts.set(chain, text);
    return text;
  };
  const wantedTable = ({ name, chains, jumps }: Table): WantedTable => ({
    name,
    chains: new Map(chains.map((chain) => [chain.name, textOfChain(chain)])),
    jumps: jumps.map(({ from, rule }) => ({ from, rule: printJumpRule(rule, family) })),
  });
  return ({ tables }) => tables.map(wantedTable);
}
