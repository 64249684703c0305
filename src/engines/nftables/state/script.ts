// SPDX-License-Identifier: Apache-2.0
// A difference as what nft is given: one transaction, which takes effect as a whole or not at all, so that packets see the
// table before it or after it.
import type { Family } from '../../../model/types.ts';
import { NFT_FAMILY, TABLE } from '../rules/names.ts';
import type { SetElements, TableDiff } from './diff.ts';

/** nft keeps a command in memory as a whole. */
const ELEMENTS_AT_ONCE = 500;

/**
 * '' if there is nothing to do.
 * @param hasTable whether there is a table already
 */
export function scriptOf(diff: TableDiff, family: Family, hasTable: boolean): string {
  const table = `${NFT_FAMILY[family]} ${TABLE}`;
  const lines = [
    ...diff.emptied.map((name) => `flush chain ${table} ${name}`),
    ...diff.removedElements.flatMap((one) => elementLines('delete', table, one)),
    ...diff.removedChains.map((name) => `delete chain ${table} ${name}`),
    ...diff.removedSets.map(([name, kind]) => `delete ${kind} ${table} ${name}`),
    ...diff.removedForeign.map((one) => foreignLine(one, table)),
    ...diff.addedChains.map(([name, hook]) =>
      hook === '' ? `add chain ${table} ${name}` : `add chain ${table} ${name} { ${hook} }`,
    ),
    ...diff.addedSets.map(([name, { kind, lines: declared }]) => {
      return `add ${kind} ${table} ${name} { ${declared.replaceAll('\n', '; ')}; }`;
    }),
    // Before the rules: the kernel checks each element of a map against each rule that names it.
    ...diff.addedElements.flatMap((one) => elementLines('add', table, one)),
    ...diff.filled.flatMap(([name, rules]) =>
      rules.split('\n').map((rule) => `add rule ${table} ${name} ${rule}`),
    ),
  ];
  if (lines.length === 0) return '';
  return [...(hasTable ? [] : [`add table ${table}`]), ...lines, ''].join('\n');
}

function elementLines(
  verb: 'add' | 'delete',
  table: string,
  { set, elements }: SetElements,
): readonly string[] {
  const lines: string[] = [];
  for (let from = 0; from < elements.length; from += ELEMENTS_AT_ONCE) {
    const some = elements.slice(from, from + ELEMENTS_AT_ONCE);
    const text = some.map(([key, value]) => `${key}${value}`).join(', ');
    lines.push(`${verb} element ${table} ${set} { ${text} }`);
  }
  return lines;
}

/** `ct helper x` -> `delete ct helper ip fairlead x` */
function foreignLine(foreign: string, table: string): string {
  const at = foreign.lastIndexOf(' ');
  return `delete ${foreign.slice(0, at)} ${table} ${foreign.slice(at + 1)}`;
}
