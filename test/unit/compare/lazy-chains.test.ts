// SPDX-License-Identifier: Apache-2.0
// Rules that are made when they are asked for are the rules of their chain, wherever their lines are, and few are kept.
import { expect, test } from 'vitest';
import { readIptables } from '../../../src/compare/rules/iptables.ts';
import { LazyChains } from '../../../src/compare/rules/lazy-chains.ts';
import type { Rule } from '../../../src/compare/rules/types.ts';

const RULE: Rule = { tests: [], actions: [], text: '', isForeign: false };

test('a chain that was just asked for is not read again, and one of long ago is', () => {
  let read = 0;
  const names = Array.from({ length: 10_000 }, (_, index) => `chain ${index}`);
  const chains = new LazyChains(new Map(names.map((name) => [name, 3])), (_, count) => {
    read += 1;
    return Array.from({ length: count }, () => RULE);
  });
  for (const name of names) {
    chains.get(name);
    chains.get('chain 0');
  }
  expect(read).toBe(names.length);
  chains.get('chain 1');
  expect(read).toBe(names.length + 1);
  expect(chains.get('chain 10000')).toBeUndefined();
});

const texts = (saved: string, chain: string): readonly string[] | string => {
  const read = readIptables('IPv4', saved);
  return read.ok ? (read.value.chains.get(chain) ?? []).map(({ text }) => text) : read.reason;
};
const DECLARED = ['*nat', ':PREROUTING ACCEPT [0:0]', ':KUBE-A - [0:0]', ':KUBE-B - [0:0]'];
const A = ['-A KUBE-A -d 10.96.0.1/32 -j RETURN', '-A KUBE-A -s 10.1.1.5/32 -j RETURN'];
const B = '-A KUBE-B -j RETURN';

test('rules of one chain that others interrupt', () => {
  const saved = [...DECLARED, A[0], B, '# a comment', '', A[1], 'COMMIT', ''].join('\n');
  expect(texts(saved, 'nat KUBE-A')).toEqual(A.map((line) => `-t nat ${line}`));
  expect(texts(saved, 'nat KUBE-B')).toEqual([`-t nat ${B}`]);
  expect(texts(saved, 'nat PREROUTING')).toEqual([]);
});

test('rules with counters, and those of chains of the kernel', () => {
  const saved = [...DECLARED, `[1:60] ${B}`, '-A PREROUTING -j KUBE-A', 'COMMIT'].join('\n');
  expect(texts(saved, 'nat KUBE-B')).toEqual([`-t nat [1:60] ${B}`]);
  expect(texts(saved, 'nat PREROUTING')).toEqual(['-t nat -A PREROUTING -j KUBE-A']);
});

test('a rule that cannot be read is an error with its line', () => {
  const of = (line: string) => texts([...DECLARED, ...A, line, 'COMMIT', ''].join('\n'), '');
  expect(of('-A KUBE-B -j')).toBe('line 7: -A KUBE-B: -j has no value');
  expect(of('-A KUBE-B -m comment --comment "x')).toMatch(/^line 7: a quote is not closed/);
  expect(of('-A KUBE-C -j RETURN')).toMatch(/^line 7: .*has not declared that chain/);
  expect(of('-I KUBE-B -j RETURN')).toMatch(/^line 7: -I is no command/);
});
