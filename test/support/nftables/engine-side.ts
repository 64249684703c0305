// SPDX-License-Identifier: Apache-2.0
// The table that the engine has written as a side of a comparison with the rules of another proxy. Why answers differ is
// told by what the plan says of them, so that src/compare/known.ts judges it as it judges the plan.
import type { Side } from '../../../src/compare/sides/side.ts';

/** @param plan of the same objects */
export function engineSide(table: Side, plan: Side): Side {
  const both = <Value>(of: (side: Side) => Iterable<Value>): readonly Value[] => [
    ...of(table),
    ...of(plan),
  ];
  return {
    ...{ kind: 'plan', name: 'fairlead' },
    addresses: () => both((side) => side.addresses()),
    ranges: () => both((side) => side.ranges()),
    reach: (question) => ({
      ports: new Set(both((side) => side.reach(question).ports)),
      portRanges: both((side) => side.reach(question).portRanges),
      sources: both((side) => side.reach(question).sources),
      devices: new Set(both((side) => side.reach(question).devices)),
    }),
    answers: (destination, classes) => {
      const said = plan.answers(destination, classes);
      return table.answers(destination, classes).map((answer, index) => ({
        ...answer,
        because: said[index]?.because ?? [],
      }));
    },
    unread: () => table.unread(),
    nodePortAddresses: () => [],
    claimAt: (destination) => plan.claimAt(destination),
  };
}
