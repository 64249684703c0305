// SPDX-License-Identifier: Apache-2.0
import fc from 'fast-check';
import ipaddr from 'ipaddr.js';
import { describe, expect, it } from 'vitest';
import {
  canonicalAddress,
  canonicalPrefix,
  familyOf,
  hostPrefix,
  isLoopback,
  prefixContains,
  validateHostAddress,
} from '../../../src/lib/ip.ts';

describe('canonicalAddress', () => {
  it.each([
    ['10.1.1.5', '10.1.1.5'],
    ['0.0.0.0', '0.0.0.0'],
    ['255.255.255.255', '255.255.255.255'],
    ['010.001.001.005', '10.1.1.5'],
    ['10.00.0.1', '10.0.0.1'],
    ['2001:DB8::CB00:71FA', '2001:db8::cb00:71fa'],
    ['2001:0db8:0000:0000:0000:0000:0000:0001', '2001:db8::1'],
    ['2001:db8:0:1:1:1:1:1', '2001:db8:0:1:1:1:1:1'],
    ['1:0:0:2:0:0:0:3', '1:0:0:2::3'],
    ['::', '::'],
    ['::ffff:10.0.0.1', '10.0.0.1'],
    ['::ffff:010.0.0.010', '10.0.0.10'],
    ['::FFFF:a00:1', '10.0.0.1'],
    ['64:ff9b::10.0.0.1', '64:ff9b::a00:1'],
  ])('%s is %s', (text, canonical) => {
    expect(canonicalAddress(text)).toBe(canonical);
  });

  it.each([
    '',
    '10.1.1',
    '10.1.1.',
    '.1.1.1',
    '10..1.1',
    '10.1.1.256',
    '10.1.1.1.1',
    '10.1.1.5 ',
    '0x0a.1.1.5',
    '10.1.1.5/32',
    '::1%lo',
    'fe80::1%eth0',
    '1:2:3',
    ':::',
    '::g',
    '::ffff:10.0.0.256',
    '[::1]',
    '12345::',
    'localhost',
    `${'0'.repeat(70)}.0.0.1`,
  ])('%s is no address', (text) => {
    expect(canonicalAddress(text)).toBeUndefined();
  });

  it('does not change what it returned, and never throws', () => {
    fc.assert(
      fc.property(fc.oneof(fc.ipV4(), fc.ipV6(), fc.ipV4Extended(), fc.string()), (text) => {
        const canonical = canonicalAddress(text);
        if (canonical !== undefined) expect(canonicalAddress(canonical)).toBe(canonical);
      }),
      { numRuns: 5_000 },
    );
  });
});

describe('canonicalPrefix', () => {
  it.each([
    ['10.1.1.9/16', '10.1.0.0/16'],
    ['192.0.2.77/26', '192.0.2.64/26'],
    ['10.1.1.9/32', '10.1.1.9/32'],
    ['255.255.255.255/0', '0.0.0.0/0'],
    ['2001:DB8::1/32', '2001:db8::/32'],
    ['2001:db8:ffff:ffff::/35', '2001:db8:e000::/35'],
    ['::1/128', '::1/128'],
  ])('%s is %s', (text, canonical) => {
    expect(canonicalPrefix(text)).toBe(canonical);
  });

  it.each([
    '10.1.1.9',
    '10.1.1.9/',
    '10.1.1.9/33',
    '::/129',
    '10.1.1.9/-1',
    '/8',
    '::ffff:10.0.0.0/104',
    '10.0.0.0/8/8',
  ])('%s is no prefix', (text) => {
    expect(canonicalPrefix(text)).toBeUndefined();
  });
});

describe('prefixContains', () => {
  it.each([
    ['10.1.0.0/16', '10.1.255.255', true],
    ['10.1.0.0/16', '10.2.0.0', false],
    ['0.0.0.0/0', '203.0.113.1', true],
    ['0.0.0.0/0', '2001:db8::1', false],
    ['2001:db8::/32', '2001:db8:ffff::1', true],
    ['2001:db8::/32', '2001:db9::1', false],
    ['192.0.2.11/32', '192.0.2.11', true],
  ])('%s has %s: %s', (prefix, address, isInside) => {
    expect(prefixContains(prefix, address)).toBe(isInside);
  });

  it('a host prefix has its address and a family', () => {
    expect(hostPrefix('10.1.1.5')).toBe('10.1.1.5/32');
    expect(hostPrefix('::1')).toBe('::1/128');
    expect(familyOf('::1/128')).toBe('IPv6');
    expect(isLoopback('127.9.9.9')).toBe(true);
    expect(isLoopback('12.7.0.1')).toBe(false);
  });
});

describe('validateHostAddress', () => {
  it.each([
    ['0.0.0.0', 'unspecified'],
    ['::', 'unspecified'],
    ['127.0.0.1', 'loopback'],
    ['::1', 'loopback'],
    ['169.254.20.10', 'link-local'],
    ['fe80::1', 'link-local'],
    ['febf::1', 'link-local'],
    ['224.0.0.1', 'multicast'],
    ['239.255.255.255', 'multicast'],
    ['ff02::1', 'multicast'],
  ])('%s is %s', (address, word) => {
    expect(validateHostAddress(address)).toContain(word);
  });

  it.each([
    '10.1.1.5',
    '223.255.255.255',
    '240.0.0.1',
    '2001:db8::1',
    'fec0::1',
    'fd00::1',
    'ff::1',
  ])('%s can be a machine', (address) => {
    expect(validateHostAddress(address)).toBeUndefined();
  });
});

describe('validateHostAddress beside ipaddr.js', () => {
  const TEXTS: Readonly<Record<string, string>> = {
    unspecified: 'the unspecified address',
    loopback: 'a loopback address',
    linkLocal: 'a link-local address',
    multicast: 'a multicast address',
  };
  // Go's IsUnspecified means 0.0.0.0 alone, ipaddr.js's range the whole of 0.0.0.0/8.
  const isOnlyThisNetwork = (address: string): boolean => /^0\.(?!0\.0\.0$)/.test(address);
  const first = fc.integer({ min: 0, max: 255 });
  const ipv4 = fc
    .tuple(fc.oneof(first, fc.constantFrom(127, 169)), fc.oneof(first, fc.constant(254)), first)
    .map(([a, b, c]) => `${a}.${b}.${c}.1`);
  const ipv6 = fc
    .tuple(
      fc.constantFrom('fe7f', 'fe80', 'febf', 'fec0', 'fe8', 'ff', 'ff02', 'ffff', '2001', 'fd00'),
      fc.ipV6(),
    )
    .map(([group, rest]) => (rest.includes('::') ? `${group}::1` : rest.replace(/^[^:]+/, group)));

  it('names the ranges that ipaddr.js names', () => {
    const special = fc.constantFrom('::', '::1', '0.0.0.0', '127.0.0.1', '240.0.0.1');
    fc.assert(
      fc.property(fc.oneof(ipv4, ipv6, fc.ipV4(), fc.ipV6(), special), (text) => {
        const address = canonicalAddress(text);
        if (address === undefined || isOnlyThisNetwork(address)) return;
        expect(validateHostAddress(address)).toBe(TEXTS[ipaddr.parse(address).range()]);
      }),
      { numRuns: 5_000 },
    );
  });
});
