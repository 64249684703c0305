// SPDX-License-Identifier: Apache-2.0
// What `capture --redact` does to addresses, to names that are words, to rules of others, and to what it cannot be sure of.
import { describe, expect, test } from 'vitest';
import type { Capture } from '../../../../src/capture/format.ts';
import { createAddressMap } from '../../../../src/capture/redact/addresses.ts';
import { redacted } from '../../../../src/capture/redact/redact.ts';
import { canonicalAddress, prefixContains } from '../../../../src/lib/ip.ts';
import { randomOf } from '../../../support/random.ts';
import { allStories, captureOf, digestWith } from '../captures.ts';

/** As many bits as both begin with. */
function commonBits(a: string, b: string): number {
  const most = a.includes(':') ? 128 : 32;
  let bits = 0;
  while (bits < most && prefixContains(`${a}/${bits + 1}`, b)) bits += 1;
  return bits;
}

describe('addresses', () => {
  const map = createAddressMap(digestWith('a'));
  const random = randomOf(7);
  const byte = (): number => Math.floor(random() * 256);
  const near = [0, 8, 16, 24].map((bits) => bits / 8);
  const ipv4 = Array.from({ length: 120 }, (_, at) =>
    [10, 96, 0, 7].map((one, index) => (index >= (near[at % 4] ?? 0) ? byte() : one)).join('.'),
  );
  const ipv6 = Array.from({ length: 60 }, (_, at) =>
    canonicalAddress(
      Array.from({ length: 8 }, (_, index) =>
        index < at % 8 ? (0xfd00 + index).toString(16) : (byte() * 256 + byte()).toString(16),
      ).join(':'),
    ),
  ).filter((one) => one !== undefined);

  test.each([
    ['IPv4', ipv4],
    ['IPv6', ipv6],
  ])(
    '%s: two that share a prefix share one of the same length, and others stand for none of these',
    (_, all) => {
      for (const a of all) {
        for (const b of all) {
          expect(commonBits(map.address(a), map.address(b)), `${a} ${b}`).toBe(commonBits(a, b));
        }
      }
      expect(new Set(all.map(map.address)).size).toBe(new Set(all).size);
    },
  );

  test('loopback, multicast and link-local stay what they are, and nothing else becomes one', () => {
    for (const one of [
      '127.0.0.1',
      '0.0.0.0',
      '169.254.20.10',
      '224.0.0.1',
      '255.255.255.255',
      '::1',
      '::',
      'ff02::1',
    ]) {
      expect(map.address(one)).toBe(one);
    }
    const local = map.address('fe80::5054:ff:fe12:3456');
    expect(local).toMatch(/^fe80::/);
    expect(local).not.toContain('12:3456');
    for (const one of [...ipv4, ...ipv6]) {
      const isSpecial = /^(?:0|127|22[4-9]|2[345]\d)\.|^169\.254\.|^(?:::|fe80|ff)/;
      if (!isSpecial.test(one)) expect(map.address(one), one).not.toMatch(isSpecial);
    }
  });

  test('a range keeps its length and its zeros, and holds what it held', () => {
    const range = map.prefix('10.96.0.0', 12);
    expect(range).toMatch(/^\d+\.(?:\d+)\.0\.0\/12$/);
    expect(prefixContains(range, map.address('10.97.3.4'))).toBe(true);
    expect(prefixContains(range, map.address('10.112.3.4'))).toBe(false);
  });
});

const [story] = allStories().filter(({ name }) => name.startsWith('102: '));
if (story === undefined) throw new Error('no story 102');

/** One Service of this name. */
const renamed = (name: string, more: Partial<Capture> = {}): Capture => {
  const capture = captureOf(story, more);
  const text = JSON.stringify(capture).replaceAll(/"web"/g, JSON.stringify(name));
  return JSON.parse(text.replaceAll('default/web', `default/${name}`)) as Capture;
};
const redactedText = (capture: Capture): string =>
  JSON.stringify(redacted(capture, digestWith('a')));

test.each(['ok', 'forward', 'tcp', 'reject', 'local', 'bpf', 'random', 'round-robin', 'name-1'])(
  'a Service that is called %s breaks nothing',
  (name) => {
    const result = redacted(renamed(name), digestWith('a'));
    const plain = redacted(renamed('acme'), digestWith('a'));
    expect(result.unread).toEqual([]);
    expect(result.dataplanes).toEqual(plain.dataplanes);
    const asAcme = (one: Capture): string => JSON.stringify(one.plan).replaceAll(/name-\w+/g, 'N');
    expect(asAcme(result)).toBe(asAcme(plain));
  },
);

test('rules keep what decides, and lose names, addresses, digests of names, and words of people', () => {
  const rules = [
    {
      command: 'iptables-nft-save',
      text: `*nat
:KUBE-SERVICES - [0:0]
:KUBE-SVC-AAAABBBBCCCCDDDD - [3:180]
-A INPUT -s 198.51.100.7/32 -m comment --comment "ticket 77 of bob at acme-corp" -j DROP
-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment "default/acme:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-AAAABBBBCCCCDDDD
COMMIT
`,
    },
    {
      command: 'nft -y list ruleset',
      text: `table ip kube-proxy {
	chain endpoint-5TPGNJF2-default/acme/tcp/http__10.1.1.5/8080 {
		ip saddr { 10.0.0.0-10.0.0.5 } dnat to 10.1.1.5:8080
	}
	chain endpoint-5TPGNJF2-default/acme/tcp/http__fd00.10.1..b/8080 {
	}
}`,
    },
  ];
  const result = redacted(renamed('acme', { rules }), digestWith('a'));
  const [saved = '', listed = ''] = result.rules.map(({ text }) => text);
  for (const gone of [
    'acme',
    'bob',
    'ticket',
    '198.51.100.7',
    '10.96.0.10',
    '10.1.1.5',
    'AAAABBBB',
    '5TPGNJF2',
    'fd00.10',
  ]) {
    expect(saved + listed, gone).not.toContain(gone);
  }
  const [, chain] = /^:(KUBE-SVC-[A-Z2-7]{16}) - \[3:180\]$/m.exec(saved) ?? [];
  expect(saved).toContain(`--dport 80 -j ${chain}`);
  expect(saved).toMatch(/--comment "default\/name-\d+:http cluster IP"/);
  expect(listed).toMatch(
    /chain endpoint-[A-Z2-7]{8}-default\/name-\d+\/tcp\/http__(\S+)\/8080 \{\s+ip saddr .* dnat to \1:8080/,
  );
});

test('the log, metrics, devices and messages have none of them either', () => {
  const result = redactedText(
    renamed('acme', {
      log: [
        '{"level":"warn","msg":"entry failed","service":"default/acme","reason":"acme-7d9f at 10.1.1.5 says \\"gold plan\\" in /srv/tenant/x.yaml"}',
      ],
      events: [
        {
          metadata: { name: 'acme.17f', namespace: 'shop' },
          note: 'Service shop/acme at 10.1.1.5',
          regarding: { kind: 'Service', name: 'acme', namespace: 'shop' },
        },
      ],
      metrics: 'fairlead_x{namespace="shop",service="acme",port="local"} 1\n',
      network: [
        {
          command: 'ip -json link',
          text: '[{"ifname":"veth1","address":"52:54:00:12:34:56","ifalias":"rack 7"}]',
        },
      ],
      status: {
        node: 'n1',
        isReady: true,
        source: { kind: 'api', location: 'https://acme.example:6443' },
      },
    }),
  );
  for (const gone of [
    'acme',
    'gold',
    'shop',
    '52:54',
    'rack 7',
    'tenant',
    '10.1.1.5',
    'port=\\"local',
  ]) {
    expect(result, gone).not.toContain(gone);
  }
  expect(result).toContain('veth1');
  expect(result).not.toMatch(/[\u{e000}-\u{f8ff}]/u);
});

test('a part with a name that is left is not in the file, and the file says so', () => {
  const result = redacted(renamed('acme', { version: 'built by acme' }), digestWith('a'));
  expect(result.unread).toEqual([
    { what: 'version', reason: 'left out: a name was found in it after --redact' },
  ]);
  expect(JSON.stringify(result)).not.toContain('acme');
});

test('addresses in names of hosts are replaced as elsewhere; dates and other numbers stay', () => {
  const log = ['lookup ip-10-0-1-5.ec2.example: no such host', '10.0.1.5 since 2026-11-29-10-15'];
  const [lookup = '', since = ''] =
    redacted(captureOf(allStories()[0]!, { log }), digestWith('a')).log ?? [];
  const [address = ''] = /^\S+/.exec(since) ?? [];
  expect(address).not.toBe('10.0.1.5');
  expect(lookup).toBe(`lookup ip-${address.replaceAll('.', '-')}.ec2.example: no such host`);
  expect(since).toContain('since 2026-11-29-10-15');
});
