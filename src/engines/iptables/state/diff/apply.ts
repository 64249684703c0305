// SPDX-License-Identifier: Apache-2.0
// What is held after a restore has succeeded, without reading it back.
import type { TableName } from '../../rules/types.ts';
import type { TableDiff } from './diff.ts';
import { type ChainText, rulesIn, textOfRules } from './text.ts';

export type MutableTables = Map<TableName, Map<string, ChainText>>;

export function applyDiffs(held: MutableTables, diffs: readonly TableDiff[]): void {
  for (const diff of diffs) {
    const table = held.get(diff.name) ?? new Map<string, ChainText>();
    held.set(diff.name, table);
    applyDiff(table, diff);
  }
}

function applyDiff(
  table: Map<string, ChainText>,
  { filled, jumps, removed, emptied }: TableDiff,
): void {
  for (const { chain, isEmptied, rules } of filled) {
    const kept = isEmptied ? [] : rulesIn(table.get(chain) ?? '');
    table.set(chain, kept.length === 0 ? rules : textOfRules([...kept, ...rulesIn(rules)]));
  }
  for (const { from, rule } of jumps.toReversed()) {
    const others = rulesIn(table.get(from) ?? '').filter((one) => one !== rule);
    table.set(from, textOfRules([rule, ...others]));
  }
  for (const chain of emptied) table.set(chain, '');
  for (const chain of removed) table.delete(chain);
}
