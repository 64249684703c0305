// SPDX-License-Identifier: Apache-2.0
// What goes wrong with iptables on a node: each is told in one line that says what to do, no table is changed in part, and
// it comes right by itself when the cause is gone.
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Agent, runCommand } from '../../../../src/lab/agent.ts';
import { insideSandbox } from '../../../../src/lab/sandbox.ts';
import { type RunResult, run, start, stop } from '../../../../src/sys/exec.ts';
import { service } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';
import { until } from '../../../support/until.ts';

const web = { n: 10 };
const sticky = { n: 11, affinitySeconds: 60 };
const FLAGS = ['--engine', 'iptables', '--iptables-min-sync-period', '50ms'];

let node: Awaited<ReturnType<typeof startOneNode>>;
let agent: Agent;
const folder = mkdtempSync(join(tmpdir(), 'tools-'));
const environment = {
  PATH: process.env['PATH'],
  XTABLES_LOCKFILE: process.env['XTABLES_LOCKFILE'],
};

const inNode = (...argv: readonly string[]): Promise<RunResult> => {
  const [program = '', ...args] = insideSandbox(node.self, argv);
  return run(program, args);
};
const saved = async (variant: string): Promise<string> =>
  (await inNode(`iptables-${variant}-save`)).stdout;
const status = async (): Promise<string> =>
  (await runCommand(node.instance, ['status', '--run-dir', node.instance.runDir])).stdout;

beforeAll(async () => {
  node = await startOneNode(['web-1', 'web-2']);
});
afterAll(() => {
  node?.remove();
  rmSync(folder, { recursive: true });
  Object.assign(process.env, environment);
  for (const [name, value] of Object.entries(environment))
    if (value === undefined) delete process.env[name];
});

test('a module that the kernel lacks: the Service that needs it waits, all others are served', async () => {
  // As a kernel without xt_recent: what jumps to a chain that does not exist is refused at that line, too.
  const flag = join(folder, 'no-recent');
  writeFileSync(flag, '');
  const tool = join(folder, 'iptables-nft-restore');
  writeFileSync(
    tool,
    `#!/bin/sh
real=/usr/sbin/iptables-nft-restore
[ -e ${flag} ] || exec $real "$@"
sed 's/-m recent /-m nosuch /' | $real "$@"
`,
  );
  chmodSync(tool, 0o755);
  process.env['PATH'] = `${folder}:${environment.PATH ?? ''}`;
  node.manifests.put('web.yaml', service('web', web, node.servers));
  agent = await node.startAgent(FLAGS);
  node.manifests.put('sticky.yaml', service('sticky', sticky, node.servers));
  await until(async () => (await status()).includes('default/sticky'), { what: 'the failure' });
  expect(await status()).toMatch(
    /Failed: +default\/sticky rules of default\/sticky: iptables-nft-restore failed at line \d+, `-A KUBE-S.*`: Couldn't load match `nosuch'.*; this iptables has no extension nosuch: install the whole package iptables/,
  );
  expect(await saved('nft')).not.toContain('10.96.0.11');
  node.manifests.put('web.yaml', service('web', web, node.pods('web-2')));
  const { ipv4 } = node.pods('web-1')[0]!;
  await until(async () => !(await saved('nft')).includes(`to-destination ${ipv4}:`), {
    what: 'web follows',
  });
  expect(await saved('nft')).toContain('10.96.0.10/32');
  rmSync(flag);
  await until(async () => (await saved('nft')).includes('-d 10.96.0.11/32'), {
    what: 'sticky served',
  });
  await until(async () => !(await status()).includes('Failed'), { what: 'no failure' });
  await agent.stop();
  process.env['PATH'] = environment.PATH;
}, 90_000);

test('what an agent has begun to write ends with it: the next one is not overwritten', async () => {
  const [flag, begun] = [join(folder, 'slow'), join(folder, 'begun')];
  const slow = join(folder, 'slow-tools');
  await run('mkdir', ['-p', slow]);
  writeFileSync(
    join(slow, 'iptables-nft-restore'),
    `#!/bin/sh
[ -e ${flag} ] || exec /usr/sbin/iptables-nft-restore "$@"
echo $$ >${begun}
exec sleep 600
`,
    { mode: 0o755 },
  );
  process.env['PATH'] = `${slow}:${environment.PATH ?? ''}`;
  agent = await node.startAgent(FLAGS);
  writeFileSync(flag, '');
  node.manifests.put('begun.yaml', service('begun', { n: 13 }, node.servers));
  const pid = await until(() => existsSync(begun) && readFileSync(begun, 'utf8').trim(), {
    what: 'it to begin',
  });
  await until(() => existsSync(`/proc/${pid}`), { what: 'it to run' });
  await agent.stop();
  await until(() => !existsSync(`/proc/${pid}`), { what: 'it to end' });
  process.env['PATH'] = environment.PATH;
}, 90_000);

test('a held xtables lock is waited for, and then its holder is named', async () => {
  await inNode('nft', 'flush', 'ruleset');
  const lock = join(folder, 'xtables.lock');
  process.env['XTABLES_LOCKFILE'] = lock;
  const legacy = join(folder, 'legacy');
  await run('mkdir', ['-p', legacy]);
  for (const family of ['iptables', 'ip6tables']) {
    for (const what of ['-save', '-restore']) {
      await run('ln', ['-sf', '/bin/false', join(legacy, `${family}-nft${what}`)]);
      await run('ln', ['-sf', '/usr/sbin/xtables-legacy-multi', join(legacy, `${family}${what}`)]);
    }
  }
  process.env['PATH'] = `${legacy}:${environment.PATH ?? ''}`;
  agent = await node.startAgent(FLAGS);
  const holder = start('flock', ['-o', lock, 'cat']);
  node.manifests.put('late.yaml', service('late', { n: 12 }, node.servers));
  await until(async () => (await status()).includes('xtables lock'), {
    what: 'the failure',
    timeoutMs: 30_000,
  });
  expect(await status()).toMatch(
    /iptables-legacy-restore waited 5 s for the xtables lock, which flock \(pid \d+\) holds: will retry; if it lasts, end that program/,
  );
  await stop(holder);
  await until(async () => (await saved('legacy')).includes('10.96.0.12/32'), {
    what: 'late',
    timeoutMs: 60_000,
  });
  await agent.stop();
}, 150_000);

test('no iptables at all: the start fails with what to install', async () => {
  const none = join(folder, 'none');
  await run('mkdir', ['-p', none]);
  for (const family of ['iptables', 'ip6tables']) {
    for (const variant of ['', '-nft', '-legacy']) {
      await run('ln', ['-sf', '/bin/false', join(none, `${family}${variant}-save`)]);
    }
  }
  process.env['PATH'] = `${none}:${environment.PATH ?? ''}`;
  await expect(node.startAgent(FLAGS)).rejects.toThrow(
    /code 5.*no iptables works on this node: iptables-nft-save/s,
  );
});
