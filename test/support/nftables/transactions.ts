// SPDX-License-Identifier: Apache-2.0
// What the engine nftables would write for a story: the first state as a whole, each later one as the difference.
import { createRenderer } from '../../../src/engines/nftables/rows/render.ts';
import { emptyTable } from '../../../src/engines/nftables/rules/parse.ts';
import type { HeldTable, Ruleset } from '../../../src/engines/nftables/rules/types.ts';
import { applyDiff } from '../../../src/engines/nftables/state/apply.ts';
import { diffTable, type TableDiff } from '../../../src/engines/nftables/state/diff.ts';
import { scriptOf } from '../../../src/engines/nftables/state/script.ts';
import { allWanted, wantedSince } from '../../../src/engines/nftables/state/wanted.ts';
import type { Family } from '../../../src/model/types.ts';
import type { Story } from '../../conformance/story.ts';
import { createPlanner } from '../plan/planner.ts';

/** kube-proxy's defaults. */
export const DEFAULTS = { masqueradeBit: 14, isTcpLiberal: false };

export interface Transaction {
  readonly script: string;
  readonly diff: TableDiff;
  /** What is there afterwards. */
  readonly held: HeldTable;
  readonly ruleset: Ruleset;
}

/** Of each state of the story. */
export function transactionsOf({ settings, steps }: Story, family: Family): readonly Transaction[] {
  const planner = createPlanner(settings);
  const renderer = createRenderer(DEFAULTS);
  const held = emptyTable();
  let before: Ruleset | undefined;
  return steps.map(({ changes }) => {
    const { plan } = planner.apply(changes);
    const ruleset = renderer.render(plan).find((one) => one.family === family);
    if (ruleset === undefined) throw new Error(`nothing is rendered of ${family}`);
    const wanted = before === undefined ? allWanted(ruleset) : wantedSince(before, ruleset);
    const diff = diffTable(held, wanted, before === undefined);
    const script = scriptOf(diff, family, before !== undefined);
    applyDiff(held, diff);
    before = ruleset;
    return { script, diff, held: structuredClone(held), ruleset };
  });
}
