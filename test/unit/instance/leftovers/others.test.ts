// SPDX-License-Identifier: Apache-2.0
// What the rules of iptables say about who serves, when some cannot be read, or packets do not reach them.
import { expect, test } from 'vitest';
import { foundIn } from '../../../../src/cli/cleanup/wait.ts';
import { readTables } from '../../../../src/instance/leftovers/others.ts';
import type { RunResult } from '../../../../src/sys/exec.ts';

const SERVICES = `:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-A - [0:0]
:KUBE-SEP-A - [0:0]
-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment "default/web cluster IP" -m tcp --dport 80 -j KUBE-SVC-A
-A KUBE-SVC-A -m comment --comment "default/web" -j KUBE-SEP-A
-A KUBE-SEP-A -p tcp -m comment --comment "default/web" -m tcp -j DNAT --to-destination 10.1.1.1:8080
`;
const jump = (chain: string): string =>
  `-A ${chain} -m comment --comment "kubernetes service portals" -j KUBE-SERVICES\n`;
const KUBE_PROXYS = `*nat\n${SERVICES}${jump('PREROUTING')}${jump('OUTPUT')}COMMIT\n`;
const FAIRLEADS = `*filter\n:INPUT ACCEPT [0:0]\n:KUBE-CLUSTER-IPS - [0:0]\n-A INPUT -j KUBE-CLUSTER-IPS\nCOMMIT\n${KUBE_PROXYS}`;

const ended = (code: number, stdout = '', stderr = ''): RunResult => ({ code, stdout, stderr });
/** The others are not installed. */
const served = (answers: Readonly<Record<string, RunResult>>) =>
  readTables(async (program) => answers[program] ?? ended(127)).then((all) => ({
    own: all.flatMap(({ own }) => own),
    others: all.flatMap(({ others }) => others),
    unread: all.flatMap(({ unread }) => unread),
  }));
const WEB = ['10.96.0.10:80/TCP', ['10.1.1.1:8080']];
const frontendsOf = ({ others }: Awaited<ReturnType<typeof served>>) =>
  others.map(({ where, frontends }) => [where, ...frontends]);

test('rules that both clients of the node and those from outside reach', async () => {
  const found = await served({ 'iptables-nft-save': ended(0, KUBE_PROXYS) });
  expect(frontendsOf(found)).toEqual([['iptables-nft', WEB]]);
  expect(found).toMatchObject({ own: [], unread: [] });
});

test.each(['PREROUTING', 'OUTPUT'])('without the jump of %s they serve nobody', async (chain) => {
  const flushed = KUBE_PROXYS.replace(jump(chain), '');
  expect(frontendsOf(await served({ 'iptables-nft-save': ended(0, flushed) }))).toEqual([]);
});

test('a tool that fails is told; one that is not installed is none', async () => {
  const found = await served({
    'iptables-nft-save': ended(0, KUBE_PROXYS),
    'ip6tables-nft-save': ended(4, '', 'Another app is currently holding the xtables lock'),
    'iptables-legacy-save': ended(0, '*nat\n:KUBE-SERVICES - [0:0]\n'),
  });
  expect(found.unread).toEqual([
    'ip6tables-nft-save: Another app is currently holding the xtables lock',
    'iptables-legacy-save: iptables-save, line 3: table nat has no COMMIT: the text was cut off',
  ]);
  expect(frontendsOf(found)).toEqual([['iptables-nft', WEB]]);
});

const NOBODY = { programs: [], synced: new Set<never>() };

test('rules of fairlead that cannot be read are not served by anybody', async () => {
  const failing = await served({ 'iptables-nft-save': ended(4, '', 'out of memory') });
  const text = 'iptables-nft-save: out of memory';
  const look = { ...NOBODY, engines: ['iptables'], served: failing };
  expect(foundIn(look)).toEqual({ isServed: false, text });
  const read = await served({ 'iptables-nft-save': ended(0, FAIRLEADS) });
  expect(foundIn({ ...look, served: read })).toMatchObject({
    isServed: false,
    text: 'IPv4: no other proxy has rules for 1 address of Services',
  });
});

test('programs are compared with the rules that can be read', async () => {
  const [web] = (await served({ 'iptables-nft-save': ended(0, FAIRLEADS) })).own;
  const programs = [web!];
  const look = { ...NOBODY, engines: ['bpf'], programs };
  const legacy = { 'ip6tables-legacy-save': ended(1, '', 'cannot') };
  const other = await served({ ...legacy, 'iptables-nft-save': ended(0, KUBE_PROXYS) });
  expect(foundIn({ ...look, served: other })).toMatchObject({ isServed: true });
  expect(foundIn({ ...look, served: await served(legacy) })).toEqual({
    isServed: false,
    text: 'IPv4: no other proxy has rules for 1 address of Services; ip6tables-legacy-save: cannot',
  });
});
