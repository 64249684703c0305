// SPDX-License-Identifier: Apache-2.0
// What the kernel really says is in test/integration/nodes/mesh.test.ts: all kinds of rules, of both tools.
import { expect, test } from 'vitest';
import { nftRedirects } from '../../../../src/sys/netlink/nft/redirects.ts';
import { targetRedirect, xtRedirects } from '../../../../src/sys/netlink/redirect.ts';

/** struct xt_entry_target. */
function target(name: string, info: readonly number[] = []): Uint8Array {
  const bytes = new Uint8Array(32 + info.length);
  new DataView(bytes.buffer).setUint16(0, bytes.length, true);
  bytes.set(new TextEncoder().encode(name), 2);
  bytes.set(info, 32);
  return bytes;
}
const named = (chain: string): Uint8Array =>
  target('ERROR', [...new TextEncoder().encode(chain.padEnd(30, '\0'))]);
const OLD_DNAT = (first: number) => [
  1,
  0,
  0,
  0,
  3,
  0,
  0,
  0,
  first,
  0,
  0,
  1,
  first,
  0,
  0,
  1,
  0,
  3,
  0,
  3,
];
const NEW_DNAT = (first: number) => [
  3,
  0,
  0,
  0,
  first,
  0,
  0,
  1,
  ...new Array(12).fill(0),
  ...new Array(20).fill(0),
];
const DNAT6 = [3, 0, 0, 0, ...new Array(15).fill(0), 1, ...new Array(20).fill(0)];

test('the chain of a rule of iptables-legacy is the one named before it', () => {
  const targets = [
    target('REDIRECT'),
    named('ISTIO_REDIRECT'),
    target(''),
    target('REDIRECT'),
    named('ERROR'),
    target('TPROXY'),
  ].map((one) => ({ table: 'nat', target: one }));
  expect(xtRedirects(targets)).toEqual([
    { kind: 'REDIRECT', chain: '' },
    { kind: 'REDIRECT', chain: 'ISTIO_REDIRECT' },
    { kind: 'TPROXY', chain: '' },
  ]);
});

test.each([
  ['revision 0, loopback', OLD_DNAT(127), 'DNAT'],
  ['revision 0, elsewhere', OLD_DNAT(10), undefined],
  ['revision 2, loopback', NEW_DNAT(127), 'DNAT'],
  ['revision 2, elsewhere', NEW_DNAT(10), undefined],
  ['::1', DNAT6, 'DNAT'],
  ['too short', [1, 0], undefined],
])('DNAT: %s', (_, info, kind) => {
  expect(targetRedirect('DNAT', Uint8Array.from(info))).toBe(kind);
});

test('a kernel without nf_tables has no rules, another refusal is an error', () => {
  const refuse = (reason: string) => (): never => {
    throw new Error(reason);
  };
  expect(nftRedirects(undefined, refuse('EINVAL'))).toEqual([]);
  expect(() => nftRedirects(undefined, refuse('EPERM'))).toThrow('EPERM');
});
