// SPDX-License-Identifier: Apache-2.0
// The settings of the packet programs follow the node's addresses; the key of their hashes stays for ever.
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ALL_FEATURES, NO_FEATURES } from '../../../../../../src/engines/bpf/features.ts';
import {
  followSettings,
  formerConnections,
} from '../../../../../../src/engines/bpf/kernel/packet/settings.ts';
import {
  decodeFeatures,
  decodeKeptSettings,
  withoutResets,
} from '../../../../../../src/engines/bpf/layout/packet-layout.ts';
import { DEFAULT_TIMES, flowTimeouts } from '../../../../../../src/engines/bpf/rows/timeouts.ts';
import type { PortRange } from '../../../../../../src/lib/port-range.ts';
import type { Plan } from '../../../../../../src/plan/types.ts';
import type { BpfMap } from '../../../../../../src/sys/native.ts';
import { memoryArray } from '../../../../../support/tables/memory.ts';

const timeouts = flowTimeouts(DEFAULT_TIMES);
const KEPT = {
  ...{ resetsTcp: false, answersPing: false, timeouts, hasFormer: true },
  features: NO_FEATURES,
} as const;
const FLAGS_AT = 60;
const LOCAL_PORTS_AT = 62;
const TIMEOUTS_AT = 8;
const RESET_GONE = 1;

let stored: Uint8Array;
let writes: number;
const map = {
  get: () => stored,
  put: (_key: Uint8Array, value: Uint8Array) => {
    stored = value;
    writes++;
  },
} as unknown as BpfMap;
const keptPorts = memoryArray('fl_kept_port', 1024, 8);
const node = (IPv4?: string, IPv6?: string): Plan['node'] =>
  ({ addresses: { IPv4, IPv6 } }) as unknown as Plan['node'];

beforeEach(() => {
  stored = new Uint8Array(72);
  writes = 0;
});

afterEach(() => vi.restoreAllMocks());

test('the first agent makes a secret, a later one keeps it', () => {
  followSettings(map, keptPorts, KEPT).node(node('192.0.2.1'));
  const first = decodeKeptSettings(stored);
  expect(first?.secret).not.toBe(0n);
  followSettings(map, keptPorts, KEPT).node(node('192.0.2.2'));
  expect(decodeKeptSettings(stored)).toEqual(first);
});

test('what the programs are loaded with is noted for the next agent, with the first plan', () => {
  expect(decodeFeatures(stored)).toBeUndefined();
  followSettings(map, keptPorts, KEPT).node(node('192.0.2.1'));
  expect(decodeFeatures(stored)).toEqual(NO_FEATURES);
  followSettings(map, keptPorts, { ...KEPT, features: ALL_FEATURES }).node(node('192.0.2.1'));
  expect(decodeFeatures(stored)).toEqual(ALL_FEATURES);
});

test.each([
  ['as long as the node has run before', 600, 1200],
  ['at most a day', 1_000_000, 1_086_400],
])('unknown connections are left to conntrack %s, counted from the first agent', (_, now, from) => {
  const clock = vi.spyOn(process.hrtime, 'bigint');
  clock.mockReturnValue(BigInt(now) * 1_000_000_000n);
  followSettings(map, keptPorts, KEPT).node(node('192.0.2.1'));
  expect(decodeKeptSettings(stored)?.resetUnknownFrom).toBe(from);
  clock.mockReturnValue(2_000_000_000_000_000n);
  followSettings(map, keptPorts, KEPT).node(node('192.0.2.2'));
  expect(decodeKeptSettings(stored)?.resetUnknownFrom).toBe(from);
});

test('without an earlier proxy none are, but for those of another engine that has served meanwhile', () => {
  vi.spyOn(process.hrtime, 'bigint').mockReturnValue(600_000_000_000n);
  const open = () =>
    followSettings(map, keptPorts, { ...KEPT, hasFormer: false }).node(node('192.0.2.1'));
  expect(formerConnections(map)).toBe('unknown');
  open();
  expect(decodeKeptSettings(stored)?.resetUnknownFrom).toBe(600);
  expect(formerConnections(map)).toBe('known');
  stored = withoutResets(stored);
  expect(formerConnections(map)).toBe('of another engine');
  open();
  expect(decodeKeptSettings(stored)?.resetUnknownFrom).toBe(1200);
});

test('addresses are written when they change, and only then', () => {
  const { node: follow } = followSettings(map, keptPorts, KEPT);
  follow(node('192.0.2.1', '2001:db8::1'));
  follow(node('192.0.2.1', '2001:db8::1'));
  expect(writes).toBe(1);
  expect([...stored.subarray(40, 44)]).toEqual([192, 0, 2, 1]);
  expect([...stored.subarray(44, 48)]).toEqual([0x20, 1, 0x0d, 0xb8]);
  follow(node(undefined, '2001:db8::1'));
  expect([...stored.subarray(40, 44)]).toEqual([0, 0, 0, 0]);
  expect(writes).toBe(2);
});

test('the range of local ports is read at most once a second, however many Services change', () => {
  let nowMs = 5_000;
  let first = 20_000;
  const { node: follow } = followSettings(map, keptPorts, KEPT, {
    readLocalPorts: () => ({ first, last: 60_999 }),
    clock: { monotonicMs: () => nowMs },
  });
  const local = (): number => new DataView(stored.buffer).getUint16(LOCAL_PORTS_AT, true);
  follow(node('192.0.2.1'));
  expect(local()).toBe(20_000);
  first = 21_000;
  nowMs = 5_999;
  follow(node('192.0.2.1'));
  expect(local()).toBe(20_000);
  nowMs = 6_000;
  follow(node('192.0.2.1'));
  expect(local()).toBe(21_000);
});

test('reserved ports are given to no flow, for as long as they are reserved', () => {
  let nowMs = 5_000;
  let reserved: readonly PortRange[] = [
    { first: 8080, last: 8080 },
    { first: 65_534, last: 65_535 },
  ];
  const { node: follow } = followSettings(map, keptPorts, KEPT, {
    readReservedPorts: () => reserved,
    clock: { monotonicMs: () => nowMs },
  });
  const kept = (): number[] =>
    Array.from({ length: 65_536 }, (_, port) => port).filter((port) => {
      const word = new DataView(keptPorts.bytes.buffer).getBigUint64(
        8 * Math.floor(port / 64),
        true,
      );
      return (word >> BigInt(port % 64)) & 1n;
    });
  follow(node('192.0.2.1'));
  expect(kept()).toEqual([8080, 65_534, 65_535]);
  reserved = [];
  nowMs = 7_000;
  follow(node('192.0.2.1'));
  expect(kept()).toEqual([]);
});

const times = { tcpEstablishedSeconds: 7200, tcpCloseWaitSeconds: 60 };
test.each([
  ['as kube-proxy’s defaults', DEFAULT_TIMES, [20, 86_400, 3600, 10, 30, 120]],
  [
    'as its file says',
    { ...times, udpSeconds: 5, udpStreamSeconds: 300 },
    [20, 7200, 60, 10, 5, 300],
  ],
  [
    'where the kernel’s are to stay, as by default',
    { tcpEstablishedSeconds: 0, tcpCloseWaitSeconds: 0, udpSeconds: 0, udpStreamSeconds: 0 },
    [20, 86_400, 3600, 10, 30, 120],
  ],
])('flows are kept %s', (_, conntrack, seconds) => {
  followSettings(map, keptPorts, { ...KEPT, timeouts: flowTimeouts(conntrack) }).node(
    node('192.0.2.1'),
  );
  const view = new DataView(stored.buffer, stored.byteOffset + TIMEOUTS_AT);
  expect(seconds.map((_, n) => view.getUint32(n * 4, true))).toEqual(seconds);
});

test('nothing is written before a plan is there', () => {
  followSettings(map, keptPorts, KEPT);
  expect(writes).toBe(0);
});

test.each([
  ['kept', false, 0],
  ['reset', true, RESET_GONE],
])('TCP connections whose backend is gone are %s', (_, resetsTcp, bit) => {
  followSettings(map, keptPorts, { ...KEPT, resetsTcp }).node(node('192.0.2.1'));
  expect((stored[FLAGS_AT] ?? 0) & RESET_GONE).toBe(bit);
});

test('what begins is left to rules, or served again, and the next agent keeps that', () => {
  const first = followSettings(map, keptPorts, KEPT);
  first.leaveNew(true);
  expect(writes).toBe(0);
  first.node(node('192.0.2.1'));
  expect(decodeKeptSettings(stored)?.leaveNew).toBe(true);
  const second = followSettings(map, keptPorts, KEPT);
  second.node(node('192.0.2.1'));
  expect(decodeKeptSettings(stored)?.leaveNew).toBe(true);
  second.leaveNew(false);
  expect(decodeKeptSettings(stored)?.leaveNew).toBe(false);
});
