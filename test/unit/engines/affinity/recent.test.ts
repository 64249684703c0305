// SPDX-License-Identifier: Apache-2.0
// The lists of xt_recent, as /proc prints them, and what session affinity remembers.
import { describe, expect, test } from 'vitest';
import {
  clientsByList,
  hzOf,
  listOf,
  parseRecent,
  rememberedInLists,
} from '../../../../src/engines/iptables/state/recent.ts';
import type { AffinityPort, Remembered } from '../../../../src/engines/predecessor.ts';
import type { PortId } from '../../../../src/engines/snapshot.ts';

const PORT: PortId = {
  ...{ namespace: 'default', name: 'web', portName: 'http' },
  ...{ protocol: 'TCP', family: 'IPv4' },
};
const [A, B] = ['10.1.1.5:8080', '10.1.1.6:8080'] as const;
const WEB: AffinityPort = { port: PORT, seconds: 600, backends: [A, B] };

test('a list has the name of the chain of its endpoint, as with kube-proxy', () => {
  expect(listOf(PORT, A)).toMatch(/^KUBE-SEP-[A-Z2-7]{16}$/);
  expect(listOf(PORT, A)).not.toBe(listOf(PORT, B));
  expect(listOf({ ...PORT, family: 'IPv6' }, '[fd00::5]:8080')).not.toBe(listOf(PORT, A));
});

test.each([
  ['', []],
  [
    'src=203.0.113.9 ttl: 64 last_seen: 4295000250 oldest_pkt: 1 4295000250\n',
    [{ client: '203.0.113.9', lastSeen: 4_295_000_250 }],
  ],
  [
    'src=203.0.113.9 ttl: 0 last_seen: 7 oldest_pkt: 3 5, 6, 7\nsrc=10.0.0.1 ttl: 64 last_seen: 8 oldest_pkt: 1 8\n',
    [
      { client: '203.0.113.9', lastSeen: 7 },
      { client: '10.0.0.1', lastSeen: 8 },
    ],
  ],
  [
    'src=2001:0db8:0000:0000:0000:0000:0000:0009 ttl: 64 last_seen: 9 oldest_pkt: 1 9\n',
    [{ client: '2001:db8::9', lastSeen: 9 }],
  ],
])('%j', (text, entries) => {
  expect(parseRecent(text)).toEqual(entries);
});

test.each([
  [100, 10],
  [250, 86_400],
  [300, 3_600],
  [1000, 290],
  [1000, 5],
])('%i jiffies a second, %i s after the boot', (hz, uptime) => {
  // The clock of the boot and that of the ticks may differ by some ticks.
  for (const off of [-3, 0, 3]) {
    const jiffies = 2 ** 32 - 300 * hz + hz * uptime + off;
    expect(hzOf(jiffies, uptime)).toBe(hz);
  }
});

describe('what lists remember', () => {
  const now = { jiffies: 1_000_000, hz: 250 };
  const list = (...entries: readonly (readonly [client: string, ageSeconds: number])[]) =>
    entries
      .map(
        ([client, age]) =>
          `src=${client} ttl: 64 last_seen: ${1_000_000 - age * 250} oldest_pkt: 1 1\n`,
      )
      .join('');
  const of = (lists: Readonly<Record<string, string>>) =>
    rememberedInLists([WEB], (name) => lists[name], now);

  test('with its age, by endpoint', () => {
    const lists = {
      [listOf(PORT, A)]: list(['203.0.113.9', 10], ['203.0.113.8', 599]),
      [listOf(PORT, B)]: list(['203.0.113.7', 0]),
    };
    expect(of(lists)).toEqual([
      { port: PORT, backend: A, client: '203.0.113.9', ageSeconds: 10 },
      { port: PORT, backend: A, client: '203.0.113.8', ageSeconds: 599 },
      { port: PORT, backend: B, client: '203.0.113.7', ageSeconds: 0 },
    ]);
  });

  test('what has expired, is of another family, or of no endpoint is nobody', () => {
    const lists = {
      [listOf(PORT, A)]: list(['203.0.113.9', 600], ['2001:db8::9', 1]),
      'KUBE-SEP-AAAAAAAAAAAAAAAA': list(['203.0.113.7', 0]),
    };
    expect(of(lists)).toEqual([]);
  });
});

describe('what is written to lists', () => {
  const client = (name: string, ageSeconds: number, backend: string = A): Remembered => ({
    ...{ port: PORT, backend, client: name, ageSeconds },
  });

  test('who was seen last comes last, and of too many only those are kept', () => {
    const all = [client('c1', 5), client('c2', 50), client('c3', 0), client('c4', 9, B)];
    expect(clientsByList(all, 2)).toEqual(
      new Map([
        [listOf(PORT, A), ['c1', 'c3']],
        [listOf(PORT, B), ['c4']],
      ]),
    );
  });

  test('a client that is known twice is there once', () => {
    const all = [client('c1', 5), client('c2', 6), client('c1', 50)];
    expect(clientsByList(all, 100).get(listOf(PORT, A))).toEqual(['c2', 'c1']);
  });

  test('a client with two backends of a port is in the list of the newer one', () => {
    const all = [client('c1', 5, B), client('c1', 50, A), client('c2', 9, A)];
    expect(clientsByList(all, 100)).toEqual(
      new Map([
        [listOf(PORT, A), ['c2']],
        [listOf(PORT, B), ['c1']],
      ]),
    );
  });
});
