// SPDX-License-Identifier: Apache-2.0
// The order of lines in the input of iptables-restore.
import { expect, test } from 'vitest';
import { diffTable } from '../../../../../../src/engines/iptables/state/diff/diff.ts';
import { restoreInput } from '../../../../../../src/engines/iptables/state/diff/restore-input.ts';

/** iptables-legacy-restore takes half as long again where each chain comes after those that are there. */
test('chains are named from the last to the first, whatever the order of their rules', () => {
  const chains = new Map([
    ['KUBE-SERVICES', '-j KUBE-SVC-B'],
    ['KUBE-SVC-B', '-j KUBE-SEP-C'],
    ['KUBE-SEP-C', '-j DNAT --to-destination 10.1.1.6:8080'],
    ['KUBE-MARK-MASQ', ''],
  ]);
  const diff = diffTable(new Map(), { name: 'nat', chains, jumps: [] });
  expect(restoreInput([diff]).split('\n')).toEqual([
    '*nat',
    ':KUBE-SVC-B - [0:0]',
    ':KUBE-SERVICES - [0:0]',
    ':KUBE-SEP-C - [0:0]',
    ':KUBE-MARK-MASQ - [0:0]',
    '-A KUBE-SERVICES -j KUBE-SVC-B',
    '-A KUBE-SVC-B -j KUBE-SEP-C',
    '-A KUBE-SEP-C -j DNAT --to-destination 10.1.1.6:8080',
    'COMMIT',
    '',
  ]);
});
