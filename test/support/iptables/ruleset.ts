// SPDX-License-Identifier: Apache-2.0
// A ruleset from the text of iptables-save, for tests.
import { parseTables } from '../../../src/engines/iptables/rules/parse.ts';
import type { Ruleset, TableName } from '../../../src/engines/iptables/rules/types.ts';
import type { Family } from '../../../src/model/types.ts';

export function rulesetOf(text: string, family: Family): Ruleset {
  const parsed = parseTables(text);
  if (!parsed.ok) throw new Error(`line ${parsed.line}: ${parsed.reason}`);
  const tables = parsed.tables.map(({ name, chains, jumps }) => {
    if (!isTableName(name)) throw new Error(`table ${name} is never rendered`);
    return { name, chains, jumps };
  });
  return { family, tables };
}

const isTableName = (name: string): name is TableName =>
  name === 'filter' || name === 'nat' || name === 'mangle';
