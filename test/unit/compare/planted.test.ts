// SPDX-License-Identifier: Apache-2.0
// Defects of kube-proxy's rules that look like a known difference are no known differences.
import { expect, test } from 'vitest';
import {
  comparedWith,
  planOf,
  type Recorded,
  type RecordedMode,
  recordedText,
  sideOf,
  unexplained,
} from './recorded.ts';

const plan = planOf('ranges');
const found = (mode: 'iptables' | 'nftables', from: string | RegExp, to: string) => {
  const text = recordedText('ranges', mode);
  const planted = text.replace(from, to);
  expect(planted).not.toBe(text);
  return unexplained(comparedWith(plan, sideOf(mode, planted, plan)));
};

test('a NodePort that is missing at the primary address', () => {
  const element = /tcp \. 30080 : goto external-[^,\s}]+/;
  expect(found('nftables', element, 'tcp . 30081 : goto service-X')).toContain(
    'default/web 192.0.2.11:30080/TCP: verdict',
  );
});

test('source ranges that do not drop, although there are endpoints', () => {
  expect(found('iptables', /^-A KUBE-PROXY-FIREWALL .*\n/m, '')).not.toEqual([]);
  expect(found('nftables', 'ip saddr != 198.51.100.0/24 drop', '')).not.toEqual([]);
});

test('a local pod that does not see the address of the node when it reaches itself', () => {
  const element = '10.1.1.5 . 10.1.1.5 . tcp . 8080';
  expect(found('nftables', element, '10.9.9.9 . 10.9.9.9 . tcp . 8080')).not.toEqual([]);
});

test('a rule of the proxy that cannot be read proves nothing', () => {
  const text = recordedText('ranges', 'nftables').replace(
    'ip saddr != 198.51.100.0/24 drop',
    'ip saddr != 198.51.100.0/24 quota over 5 mbytes drop',
  );
  const { unread } = comparedWith(plan, sideOf('nftables', text, plan));
  expect(unread).toMatchObject([{ isForeign: false, text: expect.stringContaining('quota') }]);
});

/** Rules that change nothing in these states: all of a proxy's that are not found must be among them. */
const IDLE: Readonly<Record<RecordedMode, RegExp>> = {
  iptables: new RegExp(
    [
      // They lead to chains without rules, as every Service has endpoints, and to those of the kubelet.
      '^-A (INPUT|FORWARD|OUTPUT) ',
      // Of packets that are not the first of their connection.
      '^-A KUBE-FORWARD ',
      // It counts only, or clears what nobody reads.
      'other traffic to default/web:http will be dropped',
      '^-A KUBE-POSTROUTING -j MARK',
      // Loopback addresses: known differences.
      '^-A KUBE-FIREWALL ! -s 127',
      '^-A KUBE-NODEPORTS -d 127',
    ].join('|'),
  ),
  nftables: new RegExp(
    [
      'no-endpoint-(nodeports|services)|^reject$|^size ',
      '^ct state new jump (firewall|nodeport-endpoints|service-endpoints)-check',
      // The packets that they wait for have a known difference.
      'Drop traffic to unallocated ClusterIPs',
    ].join('|'),
  ),
};
/** In the state with affinity nobody asks for a NodePort or for source ranges. */
const IDLE_WITHOUT_PORTS = /NOTE: this must be the last rule|@firewall-ips|@service-nodeports/;

const isRule = (mode: RecordedMode, line: string): boolean =>
  mode === 'iptables'
    ? /^-A .*KUBE-/.test(line)
    : /^\t\t(?!type |comment|elements|flags|timeout|\t)\S/.test(line);

const BOTH = ['iptables', 'nftables'] as const;
const STATES = (['ranges', 'affinity'] as const).flatMap((name) =>
  BOTH.map((mode) => ({ name, mode })),
);

/** Of all tests together. */
const wrongFound: Record<RecordedMode, number> = { iptables: 0, nftables: 0 };

/** @returns how many of the texts were found, and the lines of those that were not */
function foundIn(name: Recorded, mode: RecordedMode, changed: (line: string) => readonly string[]) {
  const own = planOf(name);
  const lines = recordedText(name, mode).split('\n');
  const missed: string[] = [];
  let count = 0;
  for (const [at, line] of lines.entries()) {
    for (const other of changed(line)) {
      const text = [
        ...lines.slice(0, at),
        ...(other === '' ? [] : [other]),
        ...lines.slice(at + 1),
      ];
      const rules = sideOf(mode, text.join('\n'), own);
      if (unexplained(comparedWith(own, rules)).length > 0) count += 1;
      else missed.push(line.trim());
    }
  }
  wrongFound[mode] += count;
  return { count, missed };
}

test.each(STATES)('$name, $mode: every rule that is missing', ({ name, mode }) => {
  const { count, missed } = foundIn(name, mode, (line) => (isRule(mode, line) ? [''] : []));
  const isIdle = (line: string): boolean =>
    IDLE[mode].test(line) || (name === 'affinity' && IDLE_WITHOUT_PORTS.test(line));
  expect(missed.filter((line) => !isIdle(line))).toEqual([]);
  expect(count).toBeGreaterThanOrEqual(15);
});

/** Each is planted alone: wherever the left one stands in a rule or an element of a map. */
const CHANGES: readonly (readonly [RegExp, string])[] = [
  [/(?<=to(?:-destination)? )10\.1\.\d\.5:8080/, '10.9.9.9:8080'],
  [/(?<=to(?:-destination)? 10\.1\.\d\.5:)8080/, '8081'],
  [/(?<=-d )10\.96\.0\.10(?=\/32 -p)/, '10.96.0.99'],
  [/(?<=--dport )(80|30080)\b/, '81'],
  [/(?<=--probability )0\.5\d*/, '0.25000000000'],
  [/(?<=numgen random mod 2 vmap \{ 0 : goto )\S+?(?=,)/, 'mark-for-masquerade'],
  [/-p tcp(?=.* -j KUBE-(SVC|EXT))/, '-p udp'],
  [/(?<=--seconds )\d+/, '60'],
  [/(?<=-s )198\.51\.100\.0\/24/, '198.51.0.0/16'],
  [/(?<=saddr != )198\.51\.100\.0\/24/, '198.51.0.0/16'],
  [/-j KUBE-MARK-MASQ/, '-j RETURN'],
  [/jump mark-for-masquerade/, 'return'],
  [/-j MASQUERADE.*/, '-j RETURN'],
  [/masquerade fully-random/, 'accept'],
  [/(?<=--set-xmark )0x4000\/0x4000/, '0x8000/0x8000'],
  [/(?<=mark set meta mark \| )0x0*4000/, '0x00008000'],
];

test.each(STATES)('$name, $mode: every word that is another one', ({ name, mode }) => {
  const { count, missed } = foundIn(name, mode, (line) =>
    CHANGES.map(([from, to]) => line.replace(from, to)).filter((other) => other !== line),
  );
  const isLoopback = (line: string): boolean => line.includes('-d 127.0.0.0/8');
  expect(missed.filter((line) => !isLoopback(line))).toEqual([]);
  expect(count).toBeGreaterThanOrEqual(5);
});

test.each(BOTH)('%s: at least 40 wrong rules were planted, and found', (mode) => {
  expect(wrongFound[mode]).toBeGreaterThanOrEqual(40);
});
