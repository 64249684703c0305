// SPDX-License-Identifier: Apache-2.0
// Of any rules that are held, and any that are wanted: what iptables-restore makes of the diff is what is wanted, with
// everything that is not ours as it was.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { TableName } from '../../../../../src/engines/iptables/rules/types.ts';
import {
  applyDiffs,
  type MutableTables,
} from '../../../../../src/engines/iptables/state/diff/apply.ts';
import {
  diffTables,
  type WantedTable,
} from '../../../../../src/engines/iptables/state/diff/diff.ts';
import { isOfService, isShared } from '../../../../../src/engines/iptables/state/diff/ours.ts';
import { restoreInput } from '../../../../../src/engines/iptables/state/diff/restore-input.ts';
import { TABLES } from '../../../../../src/engines/iptables/state/diff/text.ts';
import { restored, type Tables } from '../../../../support/iptables/memory/restored.ts';

const SERVICE_CHAINS = ['A', 'B', 'C'].flatMap((letter) =>
  ['SVC', 'SEP'].map((kind) => `KUBE-${kind}-${letter.repeat(16)}`),
);
const TOP = ['KUBE-SERVICES', 'KUBE-NODEPORTS', 'KUBE-PROXY-CANARY', 'KUBE-FIREWALL'];
const JUMPS = ['-m a -j KUBE-SERVICES', '-m b -j KUBE-NODEPORTS', '-j KUBE-FIREWALL'];
const OTHERS = [
  '-j ACCEPT',
  '-p tcp -j CNI-1',
  '-s 10.0.0.1/32 -j RETURN',
  '-j KUBE-SVC-AAAAAAAAAAAAAAAA',
];

const rulesTo = (chains: readonly string[]) =>
  fc.array(
    fc.oneof(
      fc.constantFrom('-j ACCEPT', '-m x -j DROP', '-d 10.96.0.1/32 -j REJECT'),
      fc
        .constantFrom(...(chains.length === 0 ? ['ACCEPT'] : chains))
        .map((chain) => `-m c -j ${chain}`),
    ),
    { maxLength: 3 },
  );

/** A table in which every jump leads somewhere. */
const chainsOf = (name: TableName, isWhole: boolean) =>
  fc
    .tuple(
      fc.subarray(name === 'nat' ? SERVICE_CHAINS : []),
      isWhole ? fc.constant(TOP) : fc.subarray(TOP),
    )
    .chain(([services, top]) =>
      fc.record(
        Object.fromEntries(
          [...services, ...top].map((chain) => [
            chain,
            isShared(chain)
              ? fc.uniqueArray(fc.constantFrom('-j DROP', '-m k -j DROP'))
              : rulesTo(services),
          ]),
        ),
      ),
    )
    .map(
      (chains) =>
        new Map(Object.entries(chains).map(([chain, rules]) => [chain, rules.join('\n')])),
    );

const heldOf = (name: TableName) =>
  chainsOf(name, false).chain((chains) =>
    fc
      .record({
        INPUT: fc.array(fc.constantFrom(...JUMPS, ...OTHERS), { maxLength: 6 }),
        'CNI-1': fc.array(fc.constantFrom(...OTHERS), { maxLength: 2 }),
      })
      .map((others) => {
        const isValid = (rule: string): boolean => {
          const target = /-j (KUBE-\S+)/.exec(rule)?.[1];
          return target === undefined || chains.has(target);
        };
        const texts = Object.entries(others).map(
          ([chain, rules]) => [chain, rules.filter(isValid).join('\n')] as const,
        );
        return new Map([...chains, ...texts]);
      }),
  );

const tablesOf = fc
  .tuple(...TABLES.map(heldOf))
  .map((found) => new Map(TABLES.map((name, at) => [name, found[at]!])));

const wantedTables: fc.Arbitrary<readonly WantedTable[]> = fc
  .tuple(...TABLES.map((name) => chainsOf(name, true)))
  .map((found) =>
    TABLES.map((name, at) => ({
      name,
      chains: found[at]!,
      jumps: JUMPS.map((rule) => ({ from: 'INPUT', rule })),
    })),
  );

/** In one transaction, or in several. */
const chainsAtOnce = fc.constantFrom(1, 2, 4, Number.POSITIVE_INFINITY);

const mutable = (tables: Tables): MutableTables =>
  new Map([...tables].map(([name, chains]) => [name, new Map(chains)]));

const lines = (text = ''): readonly string[] => text.split('\n').filter((line) => line !== '');

test('what is restored is what is wanted, and nothing of others is touched', () => {
  fc.assert(
    fc.property(tablesOf, wantedTables, chainsAtOnce, (held, wanted, most) => {
      const after = restored(held, restoreInput(diffTables(held, wanted), most));
      for (const { name, chains, jumps } of wanted) {
        const table = after.get(name)!;
        for (const [chain, text] of chains) {
          if (isShared(chain))
            expect(lines(table.get(chain))).toEqual(expect.arrayContaining([...lines(text)]));
          else expect(table.get(chain)).toBe(text);
        }
        const rules = table.get('INPUT')!.split('\n');
        for (const { rule } of jumps) expect(rules.filter((one) => one === rule)).toEqual([rule]);
        const foreign = (text?: string): readonly string[] =>
          lines(text).filter((one) => !JUMPS.includes(one));
        expect(foreign(table.get('INPUT'))).toEqual(foreign(held.get(name)?.get('INPUT')));
        expect(table.get('CNI-1')).toBe(held.get(name)?.get('CNI-1'));
        const stale = [...table].filter(([chain]) => isOfService(chain) && !chains.has(chain));
        expect(stale.filter(([, text]) => text !== '')).toEqual([]);
      }
    }),
  );
});

test('what is remembered of a restore is what the kernel has', () => {
  fc.assert(
    fc.property(tablesOf, wantedTables, chainsAtOnce, (held, wanted, most) => {
      const diffs = diffTables(held, wanted);
      const remembered = mutable(held);
      applyDiffs(remembered, diffs);
      expect(remembered).toEqual(restored(held, restoreInput(diffs, most)));
    }),
  );
});

test('nothing is done twice', () => {
  fc.assert(
    fc.property(tablesOf, wantedTables, (held, wanted) => {
      const after = mutable(held);
      applyDiffs(after, diffTables(held, wanted));
      expect(restoreInput(diffTables(after, wanted))).toBe('');
    }),
  );
});

test('chains that need no change are not in the input', () => {
  fc.assert(
    fc.property(tablesOf, wantedTables, (held, wanted) => {
      const input = restoreInput(diffTables(held, wanted));
      const nat = /\*nat\n([\s\S]*?)COMMIT/.exec(input)?.[1] ?? '';
      for (const [chain, text] of wanted.find(({ name }) => name === 'nat')!.chains) {
        if (held.get('nat')?.get(chain) === text) expect(nat).not.toContain(`:${chain} `);
      }
    }),
  );
});
