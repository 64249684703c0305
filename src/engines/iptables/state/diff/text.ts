// SPDX-License-Identifier: Apache-2.0
// Tables as text, the form in which what is held and what is wanted are compared: the rules of a chain as iptables-save
// prints them, one a line, without `-A CHAIN `.
import type { TableName } from '../../rules/types.ts';

/** '' for a chain without rules. */
export type ChainText = string;

/** All chains of a table, those of others too. */
export type HeldTable = ReadonlyMap<string, ChainText>;
export type HeldTables = ReadonlyMap<TableName, HeldTable>;

export const TABLES: readonly TableName[] = ['mangle', 'filter', 'nat'];

/** The rules of a chain. */
export const rulesIn = (text: ChainText): readonly string[] =>
  text === '' ? [] : text.split('\n');

export const textOfRules = (rules: readonly string[]): ChainText => rules.join('\n');

/** Reads what iptables-save has printed; a table that is absent there is an empty one. */
export function heldTables(saved: string): HeldTables {
  const tables = new Map<TableName, Map<string, string[]>>(TABLES.map((name) => [name, new Map()]));
  let chains: Map<string, string[]> | undefined;
  for (const line of saved.split('\n')) {
    if (line.startsWith('*')) chains = tables.get(line.slice(1) as TableName);
    else if (line.startsWith(':')) chains?.set(line.slice(1, line.indexOf(' ')), []);
    else if (line.startsWith('-A ')) {
      const end = line.indexOf(' ', 3);
      const name = end < 0 ? line.slice(3) : line.slice(3, end);
      chains?.get(name)?.push(end < 0 ? '' : line.slice(end + 1));
    }
  }
  return new Map([...tables].map(([name, found]) => [name, joined(found)]));
}

const joined = (chains: ReadonlyMap<string, readonly string[]>): HeldTable =>
  new Map([...chains].map(([name, rules]) => [name, textOfRules(rules)]));
