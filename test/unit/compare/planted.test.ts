// SPDX-License-Identifier: Apache-2.0
// Defects of kube-proxy's rules that look like a known difference are no known differences.
import { expect, test } from 'vitest';
import { comparedWith, planOf, recordedText, sideOf, unexplained } from './recorded.ts';

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
