// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from 'vitest';
import { conntrackMax, sysctlWrites } from '../../../src/config/sysctls.ts';
import type { ConntrackSettings } from '../../../src/config/types.ts';

const DEFAULTS: ConntrackSettings = {
  maxPerCore: 32_768,
  min: 131_072,
  tcpEstablishedSeconds: 86_400,
  tcpCloseWaitSeconds: 3600,
  tcpBeLiberal: false,
  udpSeconds: 0,
  udpStreamSeconds: 0,
};

test.each([
  ['the minimum on a small machine', { maxPerCore: 32_768, min: 131_072 }, 2, 131_072],
  ['so many for each CPU', { maxPerCore: 32_768, min: 131_072 }, 8, 262_144],
  ['a million at most', { maxPerCore: 32_768, min: 131_072 }, 64, 1_048_576],
  ['no more than asked where the minimum is 0', { maxPerCore: 1, min: 0 }, 2, 2],
  ['nothing, minimum or not, where 0 is asked', { maxPerCore: 0, min: 131_072 }, 8, undefined],
])('the connection table gets %s', (_, settings, cpus, max) => {
  expect(conntrackMax(settings, cpus)).toBe(max);
});

const texts = (...of: Parameters<typeof sysctlWrites>) =>
  sysctlWrites(...of).map(({ path, value, rule }) => `${rule} ${path} ${value}`);

describe('what is written', () => {
  test('by default: the table, its hash and two time-outs', () => {
    expect(texts(DEFAULTS, 8, false)).toEqual([
      'raise proc/sys/net/netfilter/nf_conntrack_max 262144',
      'raise sys/module/nf_conntrack/parameters/hashsize 65536',
      'set proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established 86400',
      'set proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait 3600',
    ]);
  });

  test('all settings, if all are configured', () => {
    const all = { ...DEFAULTS, tcpBeLiberal: true, udpSeconds: 30, udpStreamSeconds: 300 };
    expect(texts(all, 8, true).slice(4)).toEqual([
      'set proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal 1',
      'set proc/sys/net/netfilter/nf_conntrack_udp_timeout 30',
      'set proc/sys/net/netfilter/nf_conntrack_udp_timeout_stream 300',
      'set proc/sys/net/ipv4/conf/all/route_localnet 1',
    ]);
  });

  test('nothing, if all are zero', () => {
    const none = { ...DEFAULTS, maxPerCore: 0, tcpEstablishedSeconds: 0, tcpCloseWaitSeconds: 0 };
    expect(texts(none, 8, false)).toEqual([]);
  });
});
