// SPDX-License-Identifier: Apache-2.0
// What goes wrong with iptables on a node: each is told in one line that says what to do, no table is changed in part, and
// it comes right by itself when the cause is gone.
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type RunResult, run, start, stop } from '../../../../src/sys/exec.ts';
import { type Agent, ownPaths, runCommand } from '../../../../tools/lab/agent.ts';
import { insideSandbox } from '../../../../tools/lab/sandbox.ts';
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
const saved = async (variant: string, ...args: readonly string[]): Promise<string> =>
  (await inNode(`iptables-${variant}-save`, ...args)).stdout;
const status = async (): Promise<string> =>
  (await runCommand(node.instance, ['status', '--run-dir', node.instance.runDir])).stdout;

/** A process whose parent is dead is a zombie until PID 1 has time for it. */
function isRunning(pid: string): boolean {
  if (!existsSync(`/proc/${pid}/stat`)) return false;
  return !readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ');
}

beforeAll(async () => {
  node = await startOneNode(['web-1', 'web-2']);
});
// Also after a test that failed, or the agents of all others would find its lock held and its programs first.
afterEach(async () => {
  await agent?.kill();
  process.env['PATH'] = environment.PATH;
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
});

test.each(['SIGTERM', 'SIGKILL'] as const)(
  'what an agent has begun to write ends with it, by %s: the next one is not overwritten',
  async (signal) => {
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
    const n = signal === 'SIGTERM' ? 13 : 14;
    node.manifests.put(`begun-${n}.yaml`, service(`begun-${n}`, { n }, node.servers));
    const pid = await until(() => readFileSync(begun, 'utf8').trim() || undefined, {
      what: 'it to begin',
    });
    await until(() => isRunning(pid), { what: 'it to run' });
    if (signal === 'SIGTERM') await agent.stop();
    else await agent.kill();
    await until(() => !isRunning(pid), { what: 'it to end' });
    rmSync(begun);
    rmSync(flag);
  },
);

test('an ephemeral agent that is stopped while it writes leaves nothing', async () => {
  const flag = join(folder, 'late');
  const begun = join(folder, 'late-begun');
  const removed = join(folder, 'late-removed');
  const late = join(folder, 'late-tools');
  await run('mkdir', ['-p', late]);
  // Everything of IPv4 is written again, and would be there after those rules were looked for, while those of IPv6 are removed.
  const scripts = {
    'iptables-nft-restore': `if [ -e ${flag} ]; then
  rm ${flag}
  cat >${flag}.input
  mv ${flag}.input ${begun}
  while [ ! -e ${removed} ]; do sleep 0.01; done
  exec /usr/sbin/iptables-nft-restore "$@" <${begun}
fi
exec /usr/sbin/iptables-nft-restore "$@"`,
    'ip6tables-nft-restore': `if [ -e ${begun} ]; then echo >${removed}; sleep 0.5; fi
exec /usr/sbin/ip6tables-nft-restore "$@"`,
  };
  for (const [program, script] of Object.entries(scripts)) {
    writeFileSync(join(late, program), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  }
  process.env['PATH'] = `${late}:${environment.PATH ?? ''}`;
  agent = await node.startAgent([...FLAGS, '--iptables-sync-period', '500ms', '--ephemeral']);
  expect(await saved('nft')).toContain(':KUBE-SERVICES');
  writeFileSync(flag, '');
  await inNode('nft', 'delete table ip nat; delete table ip filter; delete table ip mangle');
  await until(() => existsSync(begun), { what: 'it to begin' });
  expect(await agent.stop()).toBe(0);
  expect(existsSync(removed)).toBe(true);
  expect(await saved('nft')).not.toContain('KUBE-S');
});

test('a program that lists rules and does not end: status, services and explain say so in time', async () => {
  const flag = join(folder, 'hangs');
  const tools = join(folder, 'hanging-tools');
  await run('mkdir', ['-p', tools]);
  for (const program of ['iptables-nft-save', 'ip6tables-nft-save']) {
    const script = `#!/bin/sh\n[ -e ${flag} ] && exec sleep 600\nexec /usr/sbin/${program} "$@"\n`;
    writeFileSync(join(tools, program), script, { mode: 0o755 });
  }
  process.env['PATH'] = `${tools}:${environment.PATH ?? ''}`;
  agent = await node.startAgent(FLAGS);
  writeFileSync(flag, '');
  const reason =
    /could not answer \/v1\/\S+: ip6?tables-nft-save was stopped because it did not end: look with `ps`/;
  const startedMs = performance.now();
  const told = await status();
  expect(told).toMatch(/^Health: +degraded: what is programmed cannot be read/m);
  expect(told).toMatch(reason);
  expect(told).toMatch(/not looked for what kube-proxy has left: \S+-save does not end: look/);
  expect(performance.now() - startedMs).toBeLessThan(100_000);
  const readers = [
    ['services', ...ownPaths(node.instance)],
    [
      ...'explain --from 10.244.0.9 --to 10.96.0.10:80/tcp --run-dir'.split(' '),
      node.instance.runDir,
    ],
  ];
  for (const { code, stderr } of await Promise.all(
    readers.map((args) => runCommand(node.instance, args)),
  )) {
    expect(stderr).toMatch(reason);
    expect(code).toBe(1);
  }
  rmSync(flag);
  expect(await status()).toContain('in sync');
  await agent.stop();
});

test('programs that are missing are named, with what to install', async () => {
  const tools = join(folder, 'few-tools');
  await run('mkdir', ['-p', tools]);
  for (const program of ['node', 'setpriv', 'sh', 'sleep', 'ip', 'nsenter']) {
    const { stdout } = await run('sh', ['-c', `command -v ${program}`]);
    await run('ln', ['-sf', stdout.trim(), join(tools, program)]);
  }
  for (const program of ['iptables-nft', 'iptables-nft-save', 'iptables-nft-restore']) {
    await run('ln', ['-sf', '/usr/sbin/xtables-nft-multi', join(tools, program)]);
  }
  process.env['PATH'] = tools;
  const starting = node.startAgent(FLAGS);
  process.env['PATH'] = environment.PATH;
  agent = await starting;
  const told = (text: string): readonly string[] => agent.log.filter((one) => one.includes(text));
  expect(told('no iptables for this family')[0]).toContain(
    'ip6tables-nft-save was not found: install the package iptables, or put it into PATH',
  );
  const removed = ['iptables-nft-save', 'iptables-nft-restore'];
  for (const program of removed) rmSync(join(tools, program));
  node.manifests.put('missing.yaml', service('missing', { n: 15 }, node.servers));
  for (const program of removed.toReversed()) {
    const text = `${program} was not found: install the package iptables, or put it into PATH`;
    const line = await until(() => told(text)[0], program);
    expect(line).toContain('sync failed, will retry');
    expect(line).not.toContain('    at ');
  }
  for (const program of removed) {
    await run('ln', ['-sf', '/usr/sbin/xtables-nft-multi', join(tools, program)]);
  }
  await until(async () => (await saved('nft')).includes('10.96.0.15/32'), {
    what: 'it to be retried',
    timeoutMs: 60_000,
  });
  await agent.stop();
});

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
  const said: string[] = [];
  const holder = start('flock', ['-o', lock, 'sh', '-c', 'echo held; exec cat'], {
    onStdoutLine: (line) => said.push(line),
  });
  await until(() => said.includes('held'), 'the lock to be held');
  node.manifests.put('late.yaml', service('late', { n: 12 }, node.servers));
  await until(async () => (await status()).includes('xtables lock'), 'the failure');
  expect(await status()).toMatch(
    /iptables-legacy-restore waited 5 s for the xtables lock, which flock \(pid \d+\) holds: if it keeps it, end that program/,
  );
  await stop(holder);
  await until(async () => (await saved('legacy')).includes('10.96.0.12/32'), {
    what: 'late',
    timeoutMs: 60_000,
  });
  await agent.stop();
});

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
