// SPDX-License-Identifier: Apache-2.0
// Whole rulesets as text, to read, compare and give to iptables-restore. The agent writes differences only.
import { printJumpRule, printRule } from '../../../src/engines/iptables/rules/print.ts';
import type { Chain, Jump, Ruleset, Table } from '../../../src/engines/iptables/rules/types.ts';
import type { Family } from '../../../src/model/types.ts';

/** `-A INPUT ...`, as iptables-save prints it. */
const printJump = ({ from, rule }: Jump, family: Family): string =>
  `-A ${from} ${printJumpRule(rule, family)}`;

/** Its lines, without the one that declares it. */
const printChain = ({ name, rules }: Chain, family: Family): readonly string[] =>
  rules.map((rule) => `-A ${name} ${printRule(rule, family)}`.trimEnd());

/** Declares the chain. In the input of iptables-restore it also empties the chain, unless that is a built-in one. */
const chainLine = (name: string): string => `:${name} - [0:0]`;

/** Input of `iptables-restore --noflush` for a node that has none of these rules. */
function printTable({ name, chains, jumps }: Table, family: Family): string {
  return [
    `*${name}`,
    ...chains.map((chain) => chainLine(chain.name)),
    ...jumps.map((jump) => printJump(jump, family)),
    ...chains.flatMap((chain) => printChain(chain, family)),
    'COMMIT',
    '',
  ].join('\n');
}

export const printRuleset = ({ family, tables }: Ruleset): string =>
  tables.map((table) => printTable(table, family)).join('');
