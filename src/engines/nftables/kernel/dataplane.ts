// SPDX-License-Identifier: Apache-2.0
// The tables of nftables as a dataplane: renders the plan, and writes what differs, each family in one transaction.
import type { Family } from '../../../model/types.ts';
import type { Plan } from '../../../plan/types.ts';
import { pause } from '../../../sys/clock.ts';
import type { Dataplane } from '../../dataplane.ts';
import { allOf } from '../../router/merge.ts';
import { createRulesDataplane, type RulesParts } from '../../rules/dataplane.ts';
import { createRulesWriter, type Extent, type Written } from '../../rules/writer.ts';
import type { Renderer } from '../rows/render.ts';
import type { HeldTable } from '../rules/types.ts';
import { serviceOfLine } from '../state/failure.ts';
import { blocksIn } from '../state/sets-view.ts';
import { heldFrontends, snapshotOf } from '../state/view.ts';
import { type FamilyTable, TransactionError } from './family-table.ts';

export interface NftablesParts
  extends Pick<
    RulesParts,
    | 'capabilities'
    | 'installation'
    | 'clock'
    | 'minSyncPeriodMs'
    | 'syncPeriodMs'
    | 'generation'
    | 'removeOthers'
    | 'close'
    | 'log'
  > {
  readonly tables: readonly FamilyTable[];
  readonly renderer: Renderer;
}

export function createNftablesDataplane(parts: NftablesParts): Dataplane {
  const { tables } = parts;
  const writer = createRulesWriter({
    writeAll: tablesWriter(parts),
    ownerOf: (error, plan) =>
      error instanceof TransactionError ? serviceOfLine(error.line, plan) : undefined,
  });
  const read = (): Promise<readonly (readonly [Family, HeldTable])[]> =>
    allOf(tables, async (table) => [table.family, await table.read()]);
  return createRulesDataplane({
    ...parts,
    pause,
    write: (plan, extent, isUntouched) => writer.write(plan, extent, isUntouched),
    transactions: () => tables.reduce((sum, table) => sum + table.transactions(), 0),
    isAsWritten: async () =>
      (await allOf(tables, (table) => table.isAsWritten())).every((one) => one),
    isThere: async () => tables.every((table) => table.isThere()),
    held: async () => (await read()).flatMap((one) => heldFrontends(...one)),
    heldDatagrams: async () =>
      (await read())
        .flatMap((one) => heldFrontends(...one))
        .filter(({ id }) => id.protocol === 'UDP' || id.protocol === 'SCTP'),
    snapshot: async () => {
      const snapshots = (await read()).map((one) => snapshotOf(...one));
      return {
        frontends: snapshots.flatMap(({ frontends }) => frontends),
        backends: snapshots.flatMap(({ backends }) => backends),
      };
    },
  });
}

function tablesWriter({ tables, renderer, generation }: NftablesParts) {
  let isAdopted = false;
  /** @returns as isUntouched: what is read here need not be read again */
  const adopt = async (): Promise<boolean> => {
    const before = generation();
    await allOf(tables, async (table) =>
      renderer.adopt(table.family, blocksIn(await table.adopt())),
    );
    isAdopted = true;
    return before !== undefined && generation() === before;
  };
  return async (
    plan: Plan,
    extent: Extent,
    _isRetry: boolean,
    isUntouched: boolean,
  ): Promise<readonly Written[]> => {
    const isKnown = isAdopted ? isUntouched : await adopt();
    const rulesets = new Map(renderer.render(plan).map((one) => [one.family, one]));
    const how = typeof extent !== 'string' ? 'changes' : extent === 'audit' ? 'audit' : 'all';
    return allOf(tables, async (table) => {
      const { family } = table;
      const ruleset = rulesets.get(family);
      const changes = ruleset === undefined ? 0 : await table.write(ruleset, how, isKnown);
      return { family, changes, drift: extent === 'audit' ? table.takeDrift() : [] };
    });
  };
}
