// SPDX-License-Identifier: Apache-2.0
// The rules of iptables as a dataplane: renders the plan, which costs little for Services that did not change, and writes
// the chains that differ, each family in one iptables-restore. A failed one changes no table in part.
import type { Family } from '../../../model/types.ts';
import { pause } from '../../../sys/clock.ts';
import type { Dataplane } from '../../dataplane.ts';
import { allOf } from '../../router/merge.ts';
import { createRulesDataplane, type RulesParts } from '../../rules/dataplane.ts';
import { datagramFrontends } from '../state/inspect/datagrams.ts';
import { heldFrontends, snapshotOf } from '../state/inspect/view.ts';
import type { OtherVariant } from './other-variant.ts';
import { createWriter, type WriterParts } from './writer.ts';

export interface IptablesParts
  extends WriterParts,
    Pick<
      RulesParts,
      | 'capabilities'
      | 'installation'
      | 'clock'
      | 'minSyncPeriodMs'
      | 'syncPeriodMs'
      | 'generation'
      | 'close'
      | 'log'
    > {
  readonly otherVariant: OtherVariant;
}

export function createIptablesDataplane(parts: IptablesParts): Dataplane {
  const { families, otherVariant } = parts;
  const writer = createWriter(parts);
  const all = [...families.values()];
  const saved = (): Promise<readonly (readonly [Family, string])[]> =>
    allOf([...families], async ([family, rules]) => [family, await rules.save()]);
  return createRulesDataplane({
    ...parts,
    pause,
    write: (plan, extent, isUntouched) => writer.write(plan, extent, isUntouched),
    transactions: () => all.reduce((sum, rules) => sum + rules.transactions(), 0),
    isAsWritten: async () => (await allOf(all, (rules) => rules.isAsWritten())).every((one) => one),
    isThere: async () => (await allOf(all, (rules) => rules.isThere())).every((one) => one),
    removeOthers: (isFull) => otherVariant.remove(isFull),
    held: async () => (await saved()).flatMap(([family, text]) => heldFrontends(family, text)),
    heldDatagrams: async () =>
      (await saved()).flatMap(([family, text]) => datagramFrontends(family, text)),
    snapshot: async () => {
      const snapshots = (await saved()).map(([family, text]) => snapshotOf(family, text));
      return {
        frontends: snapshots.flatMap(({ frontends }) => frontends),
        backends: snapshots.flatMap(({ backends }) => backends),
      };
    },
  });
}
