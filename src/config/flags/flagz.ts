// SPDX-License-Identifier: Apache-2.0
// Every flag of kube-proxy with its value in this process, for /flagz: the given one, else kube-proxy's
// default; of fairlead's own flags only those that were given. Settings of the file are on /configz.
import { recordOrEmpty } from '../../lib/json.ts';
import { withDefaults } from '../defaults.ts';
import { FLAGS, type FlagValues } from './flags.ts';
import type { FlagRow } from './row.ts';

const EMPTY: Readonly<Partial<Record<FlagRow['type'], string>>> = {
  bool: 'false',
  int: '0',
  float: '0',
  list: '[]',
};

/** Sorted by name, as text. */
export function flagz(given: FlagValues): Readonly<Record<string, string>> {
  const defaults = withDefaults({});
  const shown = FLAGS.filter(({ flag, group }) => group !== 'own' || given[flag] !== undefined).map(
    (row) => [row.flag, given[row.flag] ?? defaultOf(row, defaults)] as const,
  );
  const all = [...shown, ['help', 'false'] as const, ['version', 'false'] as const];
  return Object.fromEntries(all.sort(([a], [b]) => (a < b ? -1 : 1)));
}

function defaultOf({ type, paths: [path] }: FlagRow, defaults: object): string {
  const value = path?.reduce<unknown>((at, key) => recordOrEmpty(at)[key], defaults);
  if (Array.isArray(value)) return `[${value.join(',')}]`;
  return ['string', 'number', 'boolean'].includes(typeof value)
    ? String(value)
    : (EMPTY[type] ?? '');
}
