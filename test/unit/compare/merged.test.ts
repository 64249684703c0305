// SPDX-License-Identifier: Apache-2.0
// A rule of another program decides, whichever kind of rules it has, and other proxies' rules beside it do not.
import { expect, test } from 'vitest';
import { compare } from '../../../src/compare/compare.ts';
import { readIptables } from '../../../src/compare/rules/iptables.ts';
import { merged } from '../../../src/compare/rules/merged.ts';
import { readNft } from '../../../src/compare/rules/nft/program.ts';
import type { Program } from '../../../src/compare/rules/types.ts';
import { rulesSide } from '../../../src/compare/sides/rules-side.ts';
import { NODE, nftTable, programOf, saved } from './texts.ts';

const DNAT = '-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -j DNAT --to-destination 10.1.1.5:8080';
const FIREWALL = nftTable('\t\tip daddr 10.96.0.10 tcp dport 80 drop').replace(
  'kube-proxy',
  'mine',
);
const foreignOf = (text: string): Program => {
  const read = readIptables('IPv4', text, { prefix: 'legacy:', isForeignOnly: true });
  if (!read.ok) throw new Error(read.reason);
  return read.value;
};

function foundWith(own: Program, ...others: readonly Program[]) {
  const [left, right] = [own, merged(own, ...others)].map((program) =>
    rulesSide({ kind: 'iptables', name: 'rules' }, program, NODE),
  );
  const { differences } = compare({ family: 'IPv4', node: NODE, sides: [left!, right!] });
  return differences.map(({ destination: { address, port }, answers: [one, other] }) => ({
    text: `${address}:${port} ${one.verdict} | ${other.verdict}`,
    isForeign: other.because.at(-1)?.isForeign,
  }));
}

test('a table of nftables beside rules of iptables', () => {
  const isLeftOut = (table: string): boolean => table !== 'ip mine';
  const beside = readNft('IPv4', FIREWALL, { isProxys: () => false, isLeftOut });
  expect(foundWith(programOf(saved(DNAT)), beside)).toContainEqual({
    text: '10.96.0.10:80 forward | drop',
    isForeign: true,
  });
});

const DROP = '-A PREROUTING -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j DROP';

test('rules of iptables beside a table of nftables, of which those of another proxy are left out', () => {
  const own = programOf(nftTable('\t\tip daddr 10.96.0.10 tcp dport 80 reject'));
  const text = saved(DNAT)
    .replace('*nat', '*mangle')
    .replace('-A PREROUTING', `${DROP}\n-A PREROUTING`);
  expect(new Set(foundWith(own, foreignOf(text)).map(({ text: one }) => one))).toEqual(
    new Set(['10.96.0.10:80 reject | drop']),
  );
  expect(foundWith(own, foreignOf(saved(DNAT)))).toEqual([]);
});

test('chains of the same name in both variants are two', () => {
  const rules = saved(DNAT).replace('-A PREROUTING', `${DROP}\n-A PREROUTING`);
  const found = foundWith(programOf(saved(DNAT)), foreignOf(rules.replace('*nat', '*raw')));
  expect(found.map(({ text }) => text)).toContain('10.96.0.10:80 forward | drop');
});
