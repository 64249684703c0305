// SPDX-License-Identifier: Apache-2.0
// The differences from kube-proxy's rules that the comparison knows, and those that docs/semantics.md lists.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { compareRules, DIFFERENCES } from '../../../../support/iptables/kube-proxy-differences.ts';
import { chainsOf } from '../../../../support/iptables/saved.ts';

const page = readFileSync(join(import.meta.dirname, '../../../../../docs/semantics.md'), 'utf8');
const section = page.slice(page.indexOf('## Where the rules of iptables differ'));

it('are the same', () => {
  const listed = [...section.matchAll(/`([a-z]+(?:-[a-z]+)+)`/g)].map(([, name]) => name);
  const names = new Set(DIFFERENCES.map(({ name }) => name));
  expect([...names].sort()).toEqual([...new Set(listed)].sort());
});

const compare = (ours: string, theirs: string): readonly string[] =>
  compareRules(1, chainsOf(`*nat\n${ours}`), chainsOf(`*nat\n${theirs}`)).unknown;

it('are all that may differ', () => {
  const chain = ':KUBE-SVC-A - [0:0]\n-A KUBE-SVC-A -j B\n-A KUBE-SVC-A -j C';
  const turned = ':KUBE-SVC-A - [0:0]\n-A KUBE-SVC-A -j C\n-A KUBE-SVC-A -j B';
  expect(compare(chain, chain)).toEqual([]);
  expect(compare(chain, turned)).toEqual([
    '~ nat KUBE-SVC-A: -A KUBE-SVC-A -j C; -A KUBE-SVC-A -j B',
  ]);
  expect(compare(chain, '')).toEqual([
    '- nat KUBE-SVC-A: -A KUBE-SVC-A -j B',
    '- nat KUBE-SVC-A: -A KUBE-SVC-A -j C',
  ]);
  expect(compare('', chain)).toHaveLength(2);
});
