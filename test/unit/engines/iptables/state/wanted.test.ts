// SPDX-License-Identifier: Apache-2.0
// What a printer says has changed is what differs between two rulesets, and a diff of that alone is the diff of everything.
import { describe, expect, test } from 'vitest';
import { createRenderer } from '../../../../../src/engines/iptables/rows/render.ts';
import {
  applyDiffs,
  type MutableTables,
} from '../../../../../src/engines/iptables/state/diff/apply.ts';
import {
  diffTables,
  type WantedTable,
} from '../../../../../src/engines/iptables/state/diff/diff.ts';
import { rulesetPrinter } from '../../../../../src/engines/iptables/state/wanted.ts';
import type { ObjectChange } from '../../../../../src/model/types.ts';
import { DEFAULTS } from '../../../../support/iptables/story-rulesets.ts';
import { createPlanner } from '../../../../support/plan/planner.ts';
import { ready, SETTINGS, service, slice } from '../../../plan/support.ts';

const endpoints = (...last: readonly number[]) => last.map((one) => ready(`10.1.0.${one}`, 'n1'));
const port = (at: number, ...last: readonly number[]): readonly ObjectChange[] => {
  const clusterIP = `10.96.0.${at}`;
  return [
    service(`web-${at}`, 0, { clusterIP, clusterIPs: [clusterIP] }),
    slice(`web-${at}`, endpoints(...last)),
  ];
};

function printing() {
  const planner = createPlanner(SETTINGS);
  const renderer = createRenderer(DEFAULTS);
  const print = rulesetPrinter('IPv4');
  return (...changes: readonly ObjectChange[]): readonly WantedTable[] => {
    planner.apply(changes);
    const ruleset = renderer.render(planner.current()).find(({ family }) => family === 'IPv4');
    return print(ruleset!);
  };
}

/** Without the digests of their names. */
const changedChains = (wanted: readonly WantedTable[]): readonly string[] =>
  wanted.flatMap(({ name, changed }) =>
    [...(changed?.chains ?? [])].map(
      ([chain, text]) =>
        `${name} ${chain.replace(/-[A-Z2-7]{16}$/, '')}${text === undefined ? ' gone' : ''}`,
    ),
  );

describe('what has changed', () => {
  test('nothing, if the plan is the same', () => {
    const print = printing();
    print(...port(1, 1, 2));
    expect(changedChains(print())).toEqual([]);
  });

  test('of an endpoint that is replaced: its Service, the new one and the one that is gone', () => {
    const print = printing();
    print(...port(1, 1, 2), ...port(2, 3));
    expect(changedChains(print(...port(1, 1, 9)))).toEqual([
      'nat KUBE-SVC',
      'nat KUBE-SEP',
      'nat KUBE-SEP gone',
    ]);
  });

  test('of a new Service also the chains that lead to it', () => {
    const print = printing();
    print(...port(1, 1));
    expect(changedChains(print(...port(2, 2)))).toEqual([
      'filter KUBE-CLUSTER-IPS',
      'nat KUBE-SERVICES',
      'nat KUBE-SVC',
      'nat KUBE-SEP',
    ]);
  });
});

test('compared with what was written before, a diff is the same as of everything', () => {
  const print = printing();
  const held: MutableTables = new Map();
  let written: readonly WantedTable[] | undefined;
  const steps = [
    [...port(1, 1, 2), ...port(2, 3)],
    port(1, 2, 4),
    port(3, 5),
    [...port(1), ...port(2, 3, 6, 7)],
    port(1, 1, 2),
    [],
  ];
  for (const step of steps) {
    const wanted = print(...step);
    const diffs = diffTables(held, wanted, written);
    const all = diffTables(held, wanted);
    const sorted = (list: typeof diffs) =>
      list.map((diff) => ({
        ...diff,
        filled: diff.filled.toSorted((a, b) => (a.chain < b.chain ? -1 : 1)),
        removed: diff.removed.toSorted(),
      }));
    expect(sorted(diffs)).toEqual(sorted(all));
    applyDiffs(held, diffs);
    written = wanted;
  }
});

test('compared with anything older, everything is compared', () => {
  const print = printing();
  const held: MutableTables = new Map();
  const first = print(...port(1, 1));
  applyDiffs(held, diffTables(held, first));
  print(...port(2, 2)); // Was not written.
  const third = print(...port(3, 3));
  expect(diffTables(held, third, first)).toEqual(diffTables(held, third));
});
