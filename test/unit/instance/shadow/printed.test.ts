// SPDX-License-Identifier: Apache-2.0
// Tables that nft has made under names of iptables count, too: iptables-save says that it does not print them, or not all of their chains.
import { expect, test } from 'vitest';
import { readNft } from '../../../../src/compare/rules/nft/program.ts';
import { printedIn } from '../../../../src/instance/shadow/read-rules.ts';

const chain = (name: string): string => `\tchain ${name} {
\t\ttype nat hook prerouting priority -100; policy accept;
\t\tip daddr 10.96.0.10 drop
\t}
`;
const LISTED = `table ip nat {\n${chain('PREROUTING')}${chain('mine')}}\n`;
const TABLE = '*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n';

const read = (saved: string | undefined): readonly string[] => {
  const isOfIptables = printedIn('ip', saved === undefined ? [] : [['nft', saved]]);
  const tables = { isProxys: () => false, isLeftOut: () => false, isOfIptables };
  return readNft('IPv4', LISTED, tables).hooks.prerouting.map((one) => one.chain);
};

test.each([
  ['all of a table that iptables-save prints', `# Generated\n${TABLE}`, []],
  [
    'other chains of a table of which it prints some',
    `# Table \`nat' contains incompatible base-chains, use 'nft' tool to list them.\n${TABLE}`,
    ['ip nat mine'],
  ],
  [
    'all of one that it does not print',
    "# Table `nat' is incompatible, use 'nft' tool.\n",
    ['ip nat PREROUTING', 'ip nat mine'],
  ],
  ['all of one, if there is no iptables', undefined, ['ip nat PREROUTING', 'ip nat mine']],
] as const)('%s', (_, saved, chains) => {
  expect(read(saved)).toEqual(chains);
});
