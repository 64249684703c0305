// SPDX-License-Identifier: Apache-2.0
// What bench:control gives to iptables-restore to see what the tools take by themselves.
import { expect, test } from 'vitest';
import { chainOf } from '../../../../bench/control/proxies/tools-alone.ts';

const SAVED = `*nat
:KUBE-SERVICES - [0:0]
:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]
:KUBE-SVC-BBBBBBBBBBBBBBBB - [0:0]
-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment "default/a cluster IP" -m tcp --dport 80 -j KUBE-SVC-AAAAAAAAAAAAAAAA
-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment "default/b cluster IP" -m tcp --dport 80 -j KUBE-SVC-BBBBBBBBBBBBBBBB
-A KUBE-SVC-AAAAAAAAAAAAAAAA -m comment --comment "default/a -> 10.1.1.5:8080" -j KUBE-SEP-1
-A KUBE-SVC-BBBBBBBBBBBBBBBB -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-2
-A KUBE-SVC-BBBBBBBBBBBBBBBB -j KUBE-SEP-3
COMMIT
`;

test('the chain of one Service, emptied and filled with the same rules', () => {
  expect(chainOf(SAVED, '10.96.0.1')).toBe(`*nat
:KUBE-SVC-BBBBBBBBBBBBBBBB - [0:0]
-A KUBE-SVC-BBBBBBBBBBBBBBBB -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-2
-A KUBE-SVC-BBBBBBBBBBBBBBBB -j KUBE-SEP-3
COMMIT
`);
});

test('nothing for an address that no Service has', () => {
  expect(chainOf(SAVED, '10.96.0.2')).toBeUndefined();
});
