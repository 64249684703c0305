// SPDX-License-Identifier: Apache-2.0
// Which tools are asked for rules of iptables, and what is said about those that fail.
import { expect, test } from 'vitest';
import { readRules } from '../../../../src/instance/leftovers/read.ts';

/** With the exit codes of these tools; the others are not installed. */
async function read(codes: Readonly<Record<string, number>>) {
  const asked: string[] = [];
  const { value, unread } = await readRules(async (program) => {
    asked.push(program);
    return { code: codes[program] ?? 127, stdout: '', stderr: '' };
  });
  return { asked, unread, where: value.map(({ where }) => where) };
}

const ENDLESS = 'does not end: look with `ps` whether another iptables hangs, too';

test('a tool that does not end is told, and the plain names, which would hang too, are not asked', async () => {
  const hanging = { 'iptables-nft-save': 124, 'ip6tables-nft-save': 124, 'iptables-save': 0 };
  const { asked, unread, where } = await read(hanging);
  expect(unread).toEqual([`iptables-nft-save ${ENDLESS}`, `ip6tables-nft-save ${ENDLESS}`]);
  expect(asked).not.toContain('iptables-save');
  expect(where).toEqual([]);
});

test('the plain names are asked where no other is installed', async () => {
  const { unread, where } = await read({ 'iptables-save': 0, 'ip6tables-save': 0 });
  expect(unread).toEqual([]);
  expect(where).toEqual(['iptables IPv4', 'iptables IPv6']);
});

test('with one kind installed, the other is no failure', async () => {
  const { unread, where } = await read({ 'iptables-nft-save': 0, 'ip6tables-nft-save': 0 });
  expect(unread).toEqual([]);
  expect(where).toEqual(['iptables-nft IPv4', 'iptables-nft IPv6']);
});
