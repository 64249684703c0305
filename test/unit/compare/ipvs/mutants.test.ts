// SPDX-License-Identifier: Apache-2.0
// The real state of kube-proxy in mode ipvs: rules, sets and virtual servers together do what the plan says, but for known reasons; and
// each rule, entry and server that is missing or another one is found.
import { describe, expect, test } from 'vitest';
import { unexplained } from '../recorded.ts';
import { comparedWithIpvs, type IpvsTexts, ipvsPlan, ipvsSide, ipvsTexts } from './recorded.ts';

const plan = ipvsPlan();
const texts = ipvsTexts();
type File = keyof IpvsTexts;

const openIn = (changed: Partial<IpvsTexts>): readonly string[] => {
  const found = comparedWithIpvs(plan, ipvsSide({ ...texts, ...changed }));
  expect(found.unread).toEqual([]);
  return unexplained(found);
};

test('no difference without a known reason, and nothing that cannot be read', () => {
  const found = comparedWithIpvs(plan, ipvsSide(texts));
  expect(found.unread).toEqual([]);
  expect(unexplained(found)).toEqual([]);
  expect(found.classes).toBeGreaterThan(5_000);
  expect([...found.reasons.keys()].sort()).toEqual([
    'hairpin-of-another-node',
    'local-falls-back',
    'local-keeps-clients',
    'no-loopback-node-ports',
    'refuses-other-ports',
    'service-address-as-source',
  ]);
});

/** What is not asked, or changes nothing in this state. */
const IDLE: Readonly<Record<File, RegExp>> = {
  'iptables.save': new RegExp(
    [
      // Packets that are not the first of their connection, or are forwarded without the proxy.
      '^-A (FORWARD|KUBE-FORWARD) ',
      // No Service has a health check.
      'health check|HEALTH-CHECK',
      // Of the mark that is left nothing else depends.
      '^-A KUBE-POSTROUTING -j MARK',
      // No client has a loopback address there.
      '^-A KUBE-SERVICES -s 127',
      // After it nothing else would match, and chains of nat accept by themselves.
      '^-A KUBE-SERVICES .* -j ACCEPT$',
      // Set for a policy that no Service with an external IP has.
      'KUBE-EXTERNAL-IP-LOCAL',
    ].join('|'),
  ),
  // IPVS refuses what has no endpoints, whether the rules lead it there or not; and a NodePort of policy Local is not masqueraded.
  'ipset.save': /(?:203\.0\.113\.11,|10\.96\.0\.11,)tcp:80$|-NODE-PORT-TCP 3001[12]$/,
  ip_vs: /(?!)/,
};

const isPart: Readonly<Record<File, (line: string) => boolean>> = {
  'iptables.save': (line) => line.startsWith('-A '),
  'ipset.save': (line) => line.startsWith('add '),
  ip_vs: (line) => /^ {2}-> \w{8}:/.test(line),
};

/** At night every line is changed, else each third one. */
const STEP = process.env['FAIRLEAD_NIGHTLY'] === undefined ? 3 : 1;

/** @returns how many changes were found, and the lines of those that were not */
function foundIn(file: File, changed: (line: string) => readonly string[]) {
  const lines = texts[file].split('\n');
  const missed: string[] = [];
  let count = 0;
  const parts = [...lines.entries()].filter(
    ([, line]) => isPart[file](line) && !IDLE[file].test(line) && changed(line).length > 0,
  );
  for (const [at, line] of parts.filter((_, nth) => nth % STEP === 0)) {
    for (const other of changed(line)) {
      const text = lines.toSpliced(at, 1, ...(other === '' ? [] : [other])).join('\n');
      if (openIn({ [file]: text }).length > 0) count += 1;
      else missed.push(`${line} -> ${other}`);
    }
  }
  return { count, missed };
}

describe('mutants', () => {
  test.each([
    ['iptables.save', 12],
    ['ipset.save', 30],
    ['ip_vs', 40],
  ] as const)('each line of %s that is missing is found', (file, least) => {
    const { count, missed } = foundIn(file, () => ['']);
    expect(missed).toEqual([]);
    expect(count).toBeGreaterThanOrEqual(Math.floor(least / STEP));
  });

  const CHANGES: readonly (readonly [RegExp, string])[] = [
    [/(?<=-> 0A010)[12]05/, '909'],
    [/(?<=:)1F90/, '1F91'],
    [/(?<=Masq +)1(?= )/, '0'],
    [/(?<=KUBE-(?:CLUSTER-IP|LOAD-BALANCER|NODE-PORT-TCP) .*)\d+$/, '99'],
    [/(?<=--set-xmark )0x4000\/0x4000/, '0x8000/0x8000'],
    [/-j KUBE-MARK-MASQ/, '-j RETURN'],
    [/-j MASQUERADE.*/, '-j RETURN'],
    [/(?<=KUBE-LOOP-BACK )dst,dst,src/, 'dst,dst,dst'],
    [/(?<=-s )10\.1\.0\.0\/16/, '10.2.0.0/16'],
    [/(?<=KUBE-LOAD-BALANCER-SOURCE-CIDR .*,)192\.0\.2\.77/, '192.0.2.0/24'],
  ];
  test.each(['iptables.save', 'ipset.save', 'ip_vs'] as const)(
    'each word of %s that is another one is found',
    (file) => {
      const { count, missed } = foundIn(file, (line) =>
        CHANGES.map(([from, to]) => line.replace(from, to)).filter((other) => other !== line),
      );
      expect(missed).toEqual([]);
      expect(count).toBeGreaterThanOrEqual(Math.floor(5 / STEP));
    },
  );

  test.each([
    ['another time', / 150000 /, ' 1500 '],
    ['none', / persistent 150000 FFFFFFFF/, ''],
  ])('session affinity with %s is found', (_, from, to) => {
    expect(openIn({ ip_vs: texts.ip_vs.replace(from, to) })).toContain(
      'default/sticky 10.96.0.15:80/TCP: affinity',
    );
  });

  test('an address that is missing on kube-ipvs0 is found', () => {
    const text = texts['ipset.save'].replace('add KUBE-IPVS-IPS 10.96.0.10\n', '');
    expect(openIn({ 'ipset.save': text })).toContain('default/web 10.96.0.10:80/TCP: verdict');
  });
});
