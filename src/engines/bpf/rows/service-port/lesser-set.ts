// SPDX-License-Identifier: Apache-2.0
// A lookup table may be a hundred times as large as its set. Without room for it the set has a lesser kind, so that
// the Service is served by the endpoints that it has.
import { lookupOf } from '../../../../plan/decide/balancing.ts';
import type { ServicePortPlan } from '../../../../plan/types.ts';
import type { FailedEntry } from '../../../dataplane.ts';
import { type Allocation, TableFull } from '../../state/allocation/allocation.ts';
import type { SetRecord } from '../../state/ledger.ts';
import type { EnsuredBackends } from './backends.ts';
import type { WantedSet } from './lookup-content.ts';
import type { RenderedSet } from './render.ts';
import { setContent } from './set-content.ts';
import { ensureSet, isEqual } from './sets.ts';

export type FullTable = Pick<FailedEntry, 'code' | 'map' | 'reason' | 'isServed'>;

/** From the one that the plan wants to the one that needs the least room. */
export function contentsOf(
  port: ServicePortPlan,
  rendered: RenderedSet,
  ids: EnsuredBackends,
  {
    made,
    former,
  }: { readonly made: Uint16Array | undefined; readonly former: SetRecord | undefined },
): readonly (() => WantedSet)[] {
  const wanted = (): WantedSet => ({ ...setContent(port, rendered, ids, made), former });
  if (lookupOf(rendered.algorithm) === undefined) return [wanted];
  const lesser = (['weighted-random', 'random'] as const).map((algorithm) => () => ({
    ...setContent(port, { ...rendered, algorithm }, ids),
    former,
  }));
  return [wanted, ...lesser];
}

/** The first for which there is room. Throws TableFull. */
export function ensureFirst(
  allocation: Allocation,
  contents: readonly (() => WantedSet)[],
): { readonly set: SetRecord | undefined; readonly noRoom?: FullTable } {
  let noRoom: FullTable | undefined;
  for (const [index, content] of contents.entries()) {
    const wanted = content();
    try {
      return { set: ensureSet(allocation, wanted), ...(noRoom && { noRoom }) };
    } catch (error) {
      if (!(error instanceof TableFull) || index === contents.length - 1) throw error;
      // They end first, see endBases().
      if (allocation.ledger.bases.size > 0) throw error;
      const held = formerLookup(allocation, wanted);
      noRoom ??= fullTableOf(
        error,
        wanted,
        held === undefined ? 'random choice' : 'the table that it has',
      );
      if (held !== undefined) return { set: held, noRoom };
    }
  }
  return { set: undefined };
}

/** Of another size or with other weights, but with the same backends. */
const formerLookup = ({ record }: Allocation, { members }: WantedSet): SetRecord | undefined =>
  record.sets.find(
    (set) => set.lookup !== undefined && !set.isDamaged && isEqual(set.members, members),
  );

const titleOf = ({ kind }: WantedSet): string => lookupOf(kind)?.title ?? kind;

const fullTableOf = (error: TableFull, wanted: WantedSet, served: string): FullTable => ({
  ...{ code: 'MAP_FULL', map: error.map, isServed: true },
  reason: `no room for its ${titleOf(wanted)} table, it is served by ${served}: ${error.fullMap}`,
});
