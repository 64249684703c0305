// SPDX-License-Identifier: Apache-2.0
// Which devices are in the flowtable, and what nft is told.
import { expect, test } from 'vitest';
import { chosenDevices } from '../../../../../src/engines/nftables/offload/choose.ts';
import {
  addition,
  creation,
  removal,
  trial,
} from '../../../../../src/engines/nftables/offload/script.ts';
import { devices } from './devices.ts';

const NETWORK = devices(
  { name: 'lo', isLoopback: true },
  'eth0',
  { name: 'br0', kind: 'bridge' },
  { name: 'v1', kind: 'veth', master: 3 },
  { name: 'kube-ipvs0', kind: 'dummy' },
  'a"b',
);
const chosen = (...patterns: readonly string[]): readonly string[] => [
  ...chosenDevices(NETWORK, patterns).values(),
];

test('auto takes what packets are routed by', () => {
  expect(chosen('auto')).toEqual(['eth0', 'br0']);
  expect(chosen('!br*')).toEqual(['eth0']);
  expect(chosen('auto', '!eth?')).toEqual(['br0']);
});

test('names take what auto leaves out, but never loopback nor what ends a name in a script', () => {
  expect(chosen('v*')).toEqual(['v1']);
  expect(chosen('auto', 'kube-ipvs0')).toEqual(['eth0', 'br0', 'kube-ipvs0']);
  expect(chosen('*')).toEqual(['eth0', 'br0', 'v1', 'kube-ipvs0']);
  expect(chosen('*', '!*')).toEqual([]);
});

test('a table of its own, with a rule for connections of Services after all filters', () => {
  expect(creation(['eth0', 'br0'])).toEqual([
    'add table inet fairlead-offload',
    'add flowtable inet fairlead-offload services { hook ingress priority 0; devices = { "eth0", "br0" }; }',
    'add chain inet fairlead-offload connections { type filter hook forward priority 1000; policy accept; }',
    'add rule inet fairlead-offload connections meta l4proto tcp ct status dnat ct state established flow add @services comment "connections of Services"',
  ]);
  expect(removal()).toEqual([
    'add table inet fairlead-offload',
    'delete table inet fairlead-offload',
  ]);
});

test('no message has more devices than the kernel takes', () => {
  const lines = addition(Array.from({ length: 401 }, (_, n) => `v${n}`));
  expect(lines.map((line) => line.split('"').length >> 1)).toEqual([200, 200, 1]);
});

test('a trial leaves the table alone', () => {
  expect(trial()).not.toContain('fairlead-offload');
  expect(trial()).toContain('flow add');
});
