// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import {
  chooseVariant,
  type Reading,
  readingOf,
  type Unusable,
} from '../../../../../src/engines/iptables/kernel/variant.ts';

const rules = (count: number): Reading => ({ hasHint: false, rules: count });
const hint = (count: number): Reading => ({ hasHint: true, rules: count });
const missing: Unusable = { reason: 'not found' };

test.each<[title: string, nft: Reading | Unusable, legacy: Reading | Unusable, chosen: string]>([
  ['an empty node', rules(0), rules(0), 'nft: 0 rules in nft, 0 in legacy'],
  ['as many rules in each', rules(7), rules(7), 'nft: 7 rules in nft, 7 in legacy'],
  ['more rules in legacy', rules(7), rules(8), 'legacy: 8 rules in legacy, 7 in nft'],
  ['more rules in nft', rules(9), rules(8), 'nft: 9 rules in nft, 8 in legacy'],
  ['a kubelet in nft', hint(1), rules(100), "nft: the kubelet's chains are in nft"],
  ['a kubelet in legacy', rules(100), hint(1), "legacy: the kubelet's chains are in legacy"],
  ['two kubelets in a row', hint(1), hint(100), "nft: the kubelet's chains are in nft"],
  ['no nft', missing, rules(0), 'legacy: not found'],
  ['no nft, and a hint in legacy', missing, hint(0), 'legacy: not found'],
  ['no legacy', rules(0), missing, 'nft: not found'],
  ['neither', missing, missing, 'none'],
])('%s', (_, nft, legacy, chosen) => {
  const choice = chooseVariant({ nft, legacy });
  expect(choice === undefined ? 'none' : `${choice.variant}: ${choice.why}`).toBe(chosen);
});

const MANGLE = '*mangle\n:PREROUTING ACCEPT [0:0]\n:KUBE-KUBELET-CANARY - [0:0]\nCOMMIT\n';
const FILTER = '*filter\n:INPUT ACCEPT [9:1]\n:CNI-INPUT - [0:0]\n-A INPUT -j CNI-INPUT\nCOMMIT\n';

test.each<[title: string, outputs: readonly string[], reading: Reading]>([
  ['nothing', ['', ''], rules(0)],
  ['rules of both families', [FILTER, FILTER], rules(2)],
  ['the canary of an old kubelet', [FILTER, MANGLE], hint(1)],
  [
    'the guard of loopback addresses, which may be left of any proxy, is no rule:',
    [FILTER.replaceAll('CNI-INPUT', 'KUBE-FIREWALL')],
    rules(0),
  ],
  ['the hint of a new one', [MANGLE.replace('KUBELET-CANARY', 'IPTABLES-HINT')], hint(0)],
  [
    "kube-proxy's canary, which it puts where it runs itself",
    [MANGLE.replace('KUBELET', 'PROXY')],
    rules(0),
  ],
])('%s is read', (_, outputs, reading) => {
  expect(readingOf(outputs)).toEqual(reading);
});
