// SPDX-License-Identifier: Apache-2.0
// Writes the rules of a plan, all families at once.
import type { Family } from '../../../model/types.ts';
import type { Plan } from '../../../plan/types.ts';
import type { Entry } from '../../entry.ts';
import { allOf } from '../../router/merge.ts';
import { createRulesWriter, type Extent, type Writer, type Written } from '../../rules/writer.ts';
import type { Ruleset } from '../rules/types.ts';
import type { ChainChange } from '../state/diff/changes.ts';
import type { WantedTable } from '../state/diff/diff.ts';
import { serviceOfLine } from '../state/diff/service-of-line.ts';
import { rulesetPrinter } from '../state/wanted.ts';
import { type FamilyRules, RestoreError } from './family-rules.ts';

export interface WriterParts {
  readonly families: ReadonlyMap<Family, FamilyRules>;
  readonly render: (plan: Plan) => readonly Ruleset[];
}

export function createWriter({ families, render }: WriterParts): Writer {
  const printers = new Map([...families.keys()].map((family) => [family, rulesetPrinter(family)]));
  const wantedOf = (plan: Plan): readonly (readonly [Family, readonly WantedTable[]])[] =>
    render(plan).flatMap((ruleset) => {
      const print = printers.get(ruleset.family);
      return print === undefined ? [] : [[ruleset.family, print(ruleset)] as const];
    });
  const driftOf = (family: Family): readonly Entry[] =>
    families
      .get(family)
      ?.takeDrift()
      .map((change) => driftEntry(family, change)) ?? [];
  const writeAll = async (
    plan: Plan,
    extent: Extent,
    isRetry: boolean,
  ): Promise<readonly Written[]> => {
    const wanted = wantedOf(plan);
    const isFull = typeof extent === 'string';
    const changes = await allOf(wanted, async ([family, tables]) => {
      const rules = families.get(family);
      if (rules === undefined) return 0;
      if (extent === 'audit') return rules.audit(tables, isRetry);
      return rules.write(tables, { isFull, isRetry });
    });
    return wanted.map(([family], index) => ({
      ...{ family, changes: changes[index] ?? 0 },
      drift: extent === 'audit' ? driftOf(family) : [],
    }));
  };
  return createRulesWriter({
    writeAll,
    ownerOf: (error, plan) =>
      error instanceof RestoreError ? serviceOfLine(error.line, plan) : undefined,
  });
}

const driftEntry = (family: Family, { table, chain, text }: ChainChange): Entry => ({
  id: { kind: 'chain', family, table, chain },
  text: `${family} ${text}`,
});
