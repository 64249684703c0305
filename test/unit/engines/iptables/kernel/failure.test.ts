// SPDX-License-Identifier: Apache-2.0
// One line for each way in which iptables-restore fails, from what version 1.8.9 prints.
import { expect, test } from 'vitest';
import {
  type Attempt,
  restoreFailure,
} from '../../../../../src/engines/iptables/kernel/failure.ts';

const INPUT = `*nat
:KUBE-SEP-X - [0:0]
-A KUBE-SEP-X -p tcp -m comment --comment "default/web" -m recent --set --name KUBE-SEP-X -m tcp -j DNAT --to-destination 10.1.1.5:8080
COMMIT
`;

const failing = (stderr: string, over: Partial<Attempt> = {}): string =>
  restoreFailure({
    program: 'iptables-nft-restore',
    input: INPUT,
    result: { code: 4, stderr },
    waitSeconds: 5,
    lockHolder: () => undefined,
    ...over,
  }).reason;

test('a rule that the kernel refuses, by nft', () => {
  const stderr = `iptables-nft-restore v1.8.9 (nf_tables): \nline 3: RULE_APPEND failed (No such file or directory): rule in chain KUBE-SEP-X\n`;
  expect(failing(stderr)).toBe(
    'iptables-nft-restore failed at line 3, `-A KUBE-SEP-X -p tcp -m comment --comment "default/web" -m recent --set --name KUBE-SEP-X -m tcp -j DNAT --to-destination 10.1.1.5:8080`: RULE_APPEND failed (No such file or directory): rule in chain KUBE-SEP-X; the kernel may lack one of xt_comment, xt_recent, xt_nat: load it on the node with modprobe',
  );
});

test.each([
  [
    'recent',
    'Warning: Extension recent revision 0 not supported, missing kernel module?\niptables-nft-restore v1.8.9 (nf_tables): unknown option "--mask"\nError occurred at line: 3\n',
    'unknown option "--mask"; the kernel lacks xt_recent: load it on the node with modprobe',
  ],
  [
    'recent and REJECT',
    'Warning: Extension recent revision 0 not supported, missing kernel module?\nWarning: Extension REJECT revision 0 not supported, missing kernel module?\niptables-nft-restore v1.8.9 (nf_tables): \nline 3: RULE_APPEND failed (No such file or directory): rule in chain KUBE-SEP-X\n',
    'rule in chain KUBE-SEP-X; the kernel lacks xt_recent, ipt_REJECT and ip6t_REJECT: load it on the node with modprobe',
  ],
])('an extension that the kernel does not have, by nft: %s', (_, stderr, said) => {
  expect(failing(stderr)).toMatch(/^iptables-nft-restore failed at line 3, `.*`: [^\n]*$/);
  expect(failing(stderr).endsWith(said), failing(stderr)).toBe(true);
});

test('many rules that the kernel refuses, by nft: one line with the first two', () => {
  const chains = ['KUBE-FORWARD', 'KUBE-FORWARD', 'KUBE-FIREWALL', 'OUTPUT', 'OUTPUT', 'FORWARD'];
  const refused = chains.map(
    (chain, index) =>
      `line ${3 + index}: RULE_APPEND failed (No such file or directory): rule in chain ${chain}\n`,
  );
  const warnings = [
    'Warning: Extension conntrack revision 0 not supported, missing kernel module?\n',
    ...refused.map(() => 'Warning: Extension conntrack is not supported, missing kernel module?\n'),
  ];
  const head = 'iptables-nft-restore v1.8.9 (nf_tables): \n';
  const chain = (name: string): string =>
    `RULE_APPEND failed (No such file or directory): rule in chain ${name}`;
  const said = failing([...warnings, head, ...refused].join(''));
  expect(said.replace(/`.*`/, 'RULE')).toBe(
    `iptables-nft-restore failed at line 3, RULE: ${chain('KUBE-FORWARD')}; ${chain('KUBE-FIREWALL')}; and 2 more; the kernel lacks xt_conntrack: load it on the node with modprobe`,
  );
});

/** legacy does not say which: what the rule has that a kernel may be built without. */
test.each([
  ['recent', '-m recent --set --name KUBE-SEP-X -j KUBE-MARK-MASQ', 'xt_recent'],
  ['statistic', '-m statistic --mode random --probability 0.5 -j KUBE-SEP-X', 'xt_statistic'],
  ['conntrack', '-m conntrack --ctstate INVALID -j DROP', 'xt_conntrack'],
])('a module that the kernel lacks: %s', (extension, rule, module) => {
  const input = `*nat\n:KUBE-SVC-X - [0:0]\n-A KUBE-SVC-X ${rule}\nCOMMIT\n`;
  const legacy = 'iptables-restore: line 3 failed: No chain/target/match by that name.\n';
  const nft = `Warning: Extension ${extension} revision 0 not supported, missing kernel module?\niptables-nft-restore v1.8.9 (nf_tables): \nline 3: RULE_APPEND failed (No such file or directory): rule in chain KUBE-SVC-X\n`;
  const load = 'load it on the node with modprobe';
  expect(failing(nft, { input })).toMatch(
    new RegExp(`at line 3, .*; the kernel lacks ${module}: ${load}$`),
  );
  expect(failing(legacy, { input })).toMatch(
    new RegExp(`at line 3, .*; the kernel may lack one of ${module}: ${load}$`),
  );
});

test('a rule that the kernel refuses, by legacy', () => {
  const stderr = 'iptables-restore: line 3 failed: No chain/target/match by that name.\n';
  expect(failing(stderr)).toContain('load it on the node with modprobe');
});

test('an extension that iptables does not have', () => {
  const stderr = `iptables-restore v1.8.9 (legacy): Couldn't load match \`recent':No such file or directory\n\nError occurred at line: 3\nTry \`iptables-restore -h' or 'iptables-restore --help' for more information.\n`;
  expect(failing(stderr)).toMatch(
    /^iptables-nft-restore failed at line 3, `.*`: Couldn't load match `recent':No such file or directory; this iptables has no extension recent: install the whole package iptables$/,
  );
});

test('a chain that somebody has deleted between reading and writing, by legacy', () => {
  const stderr = `iptables-legacy-restore v1.8.9 (legacy): Couldn't load target \`KUBE-CLUSTER-IPS':No such file or directory\n\nError occurred at line: 3\n`;
  expect(failing(stderr)).toMatch(
    /; somebody has deleted the chain KUBE-CLUSTER-IPS meanwhile: all rules are read and written again at the next try$/,
  );
});

test('the lock, with its holder and without', () => {
  const stderr = `Another app is currently holding the xtables lock; still 5s 0us time ahead to have a chance to grab the lock...\nAnother app is currently holding the xtables lock. Stopped waiting after 5s.\n`;
  const lockHolder = () => ({ pid: 712, program: 'flanneld' });
  expect(failing(stderr, { lockHolder })).toBe(
    'iptables-nft-restore waited 5 s for the xtables lock, which flanneld (pid 712) holds: if it keeps it, end that program',
  );
  expect(failing(stderr)).toContain('the xtables lock, which another program holds');
});

test('a lock that cannot be opened', () => {
  const stderr = "Fatal: can't open lock file /run/xtables.lock: Read-only file system\n";
  expect(failing(stderr)).toBe(
    'iptables-nft-restore cannot open /run/xtables.lock (Read-only file system): mount the /run of the node, or make the file writable',
  );
});

test.each([
  [
    'no program',
    { code: 127, stderr: 'spawn ENOENT' },
    'iptables-nft-restore was not found: install the package iptables, or put it into PATH',
  ],
  [
    'no end',
    { code: 124, stderr: '' },
    'iptables-nft-restore was stopped because it did not end: look with `ps` whether another iptables hangs, too',
  ],
  [
    'no privilege',
    {
      code: 4,
      stderr:
        'iptables-restore v1.8.9 (nf_tables): Could not fetch rule set generation id: Permission denied (you must be root)\n',
    },
    'iptables-nft-restore failed: Could not fetch rule set generation id: Permission denied (you must be root); run the agent as root, or with CAP_NET_ADMIN and CAP_NET_RAW',
  ],
  [
    'no table',
    {
      code: 3,
      stderr:
        "iptables-restore v1.8.9 (legacy): iptables-restore: unable to initialize table 'nat'\n\nError occurred at line: 1\n",
    },
    "iptables-nft-restore failed at line 1, `*nat`: iptables-restore: unable to initialize table 'nat'; load the modules iptable_nat and iptable_filter on the node, or use nft",
  ],
  [
    'no message',
    { code: 1, stderr: '' },
    'iptables-nft-restore failed: exit code 1; all rules are read and written again at the next try',
  ],
])('%s', (_, result, reason) => {
  expect(failing('', { result })).toBe(reason);
});
