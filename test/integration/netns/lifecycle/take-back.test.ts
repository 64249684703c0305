// SPDX-License-Identifier: Apache-2.0
// Trying fairlead on a node and removing it again: the agent's warnings before it attaches, --ephemeral, and
// cleanup with its dry run.
import { copyFileSync, existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { run, start } from '../../../../src/sys/exec.ts';
import { ownPaths, runCommand } from '../../../../tools/lab/agent.ts';
import { compiledPath, insideSandbox } from '../../../../tools/lab/sandbox.ts';
import { service, target } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';
import { until, untilHolds } from '../../../support/until.ts';

const web = { n: 10 };
let node: Awaited<ReturnType<typeof startOneNode>>;
beforeAll(async () => {
  node = await startOneNode(['web-1']);
  node.manifests.put('web.yaml', service('web', web, node.servers));
});
afterEach(async () => {
  await runCommand(node.instance, ['cleanup', ...ownPaths(node.instance)]);
});
afterAll(() => node?.remove());

/** The kernel frees a link that nobody holds any more a moment later. */
const expectNothingAttached = (): Promise<void> =>
  untilHolds(async () => {
    const { stdout } = await run('bpftool', ['cgroup', 'show', node.instance.cgroupRoot]);
    expect(stdout).not.toContain('fl_');
  });

const lineWith = (log: readonly string[], text: string): number =>
  log.findIndex((line) => line.includes(text));

test.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
  '--ephemeral: %s takes everything back',
  async (signal) => {
    const agent = await node.startAgent(['--ephemeral']);
    expect(await node.client().once(target(web))).toMatchObject({ kind: 'answered' });
    agent.child.kill(signal);
    expect(await agent.child.exited).toBe(0);
    await expectNothingAttached();
    expect(existsSync(node.instance.bpfRoot)).toBe(false);
    expect(readdirSync(node.instance.runDir)).toEqual([]);
    expect(await node.client().once(target(web))).toMatchObject({ code: 'EHOSTUNREACH' });
    expect(agent.log.at(-1)).toMatch(
      /"removed":"\d+ links, \d+ maps, 2 files".*stopped and removed/,
    );
  },
);

test.each([
  ['from the moment the hooks are attached', '"msg":"attached"'],
  ['again and again', '"msg":"ready"'],
])('--ephemeral: SIGINT %s takes everything back', async (_when, line) => {
  const { sandbox, manifests, cgroupRoot, bpfRoot, runDir, nodeName } = node.instance;
  const source = ['--manifests', manifests.path, '--hostname-override', nodeName];
  const args = ['run', ...source, '--cgroup-root', cgroupRoot, ...ownPaths(node.instance)];
  const main = [process.execPath, compiledPath('main.js'), ...args, '--ephemeral'];
  const [program = '', ...rest] = insideSandbox(sandbox, main);
  let interrupts: NodeJS.Timeout | undefined;
  const agent = start(program, rest, {
    onStderrLine: (text) => {
      if (text.includes(line)) interrupts = setInterval(() => agent.kill('SIGINT'), 1);
    },
  });
  const code = await agent.exited;
  clearInterval(interrupts);
  expect(code).toBe(0);
  await expectNothingAttached();
  expect(existsSync(bpfRoot)).toBe(false);
  expect(readdirSync(runDir)).toEqual([]);
});

test('--ephemeral: a start that fails after the hooks are attached takes everything back', async () => {
  const { sandbox, manifests, cgroupRoot, bpfRoot, nodeName } = node.instance;
  const source = ['--manifests', manifests.path, '--hostname-override', nodeName];
  const args = ['run', ...source, '--cgroup-root', cgroupRoot, ...ownPaths(node.instance)];
  const noAddress = ['--metrics-bind-address', '203.0.113.9:10249', '--bind-address-hard-fail'];
  const main = [process.execPath, compiledPath('main.js'), ...args, ...noAddress, '--ephemeral'];
  const [program = '', ...rest] = insideSandbox(sandbox, main);
  const { code, stderr } = await run(program, rest, { timeoutMs: 120_000 });
  expect(stderr).toContain('"msg":"attached"');
  expect(stderr).toContain('203.0.113.9');
  expect(code).not.toBe(0);
  await expectNothingAttached();
  expect(existsSync(bpfRoot)).toBe(false);
});

test('without --ephemeral traffic continues', async () => {
  const agent = await node.startAgent();
  expect(await agent.stop()).toBe(0);
  expect(await node.client().once(target(web))).toMatchObject({ kind: 'answered' });
});

test('cleanup --dry-run works beside a running agent; cleanup itself fails', async () => {
  const agent = await node.startAgent();
  const paths = ownPaths(node.instance);
  const dry = await runCommand(node.instance, ['cleanup', '--dry-run', ...paths]);
  expect(dry).toMatchObject({ code: 0, stderr: '' });
  expect(dry.stdout).toMatch(/would remove link links\/fl_connect4/);
  expect(dry.stdout).toMatch(/would remove \d+ links, \d+ maps, [23] files\n$/);
  expect(await runCommand(node.instance, ['cleanup', ...paths])).toMatchObject({ code: 1 });
  expect(await node.client().once(target(web))).toMatchObject({ kind: 'answered' });
  await agent.stop();
});

test('cleanup also removes the files of the run directory but the history, and prints what it removed', async () => {
  await (await node.startAgent()).stop();
  const remembered = join(node.instance.runDir, 'api-servers.json');
  writeFileSync(remembered, '{}');
  const { stdout, code } = await runCommand(node.instance, ['cleanup', ...ownPaths(node.instance)]);
  expect(code).toBe(0);
  expect(stdout).toContain(`removed file ${remembered}`);
  expect(stdout).toMatch(/removed \d+ links, \d+ maps, 3 files\n$/);
  expect(readdirSync(node.instance.runDir)).toEqual(['history']);
});

test('a kubelet on the node is reported before anything is attached', async () => {
  const program = join(node.instance.runDir, 'kubelet');
  copyFileSync('/usr/bin/sleep', program);
  const [sh = '', ...args] = insideSandbox(node.self, [program, '600']);
  const kubelet = start(sh, args);
  // The process takes the kubelet's name once it is in its sandbox.
  const isUp = async () => (await run('ps', ['-o', 'comm=', '-p', `${kubelet.pid}`])).stdout.trim();
  await until(async () => (await isUp()) === 'kubelet', { what: 'the kubelet' });
  const agent = await node.startAgent();
  const warned = lineWith(agent.log, `kubelet (pid ${kubelet.pid})`);
  expect(agent.log[warned]).toMatch(/"level":"warn".*--ephemeral/);
  expect(lineWith(agent.log, '"msg":"attached"')).toBeGreaterThan(warned);
  await agent.stop();
  kubelet.kill('SIGKILL');
  rmSync(program);
});

test('another instance on the same cgroup is reported', async () => {
  const first = await node.startAgent();
  const { bpfRoot, runDir } = node.instance;
  const other = { '--bpf-root': `${bpfRoot}-other`, '--run-dir': `${runDir}-other` };
  const second = await node.startAgent([...Object.entries(other).flat(), '--ephemeral']);
  const warning = second.log[lineWith(second.log, 'another service proxy')];
  expect(warning).toContain(`another fairlead (pins below ${bpfRoot})`);
  await second.stop();
  await first.stop();
});

test('a --hostname-override without a Node logs a warning, and a Node that appears is logged', async () => {
  const agent = await node.startAgent();
  await until(() => lineWith(agent.log, 'no Node object with this name') >= 0, { what: 'warning' });
  const metadata = { name: 'n1' };
  node.manifests.put('node.yaml', [{ apiVersion: 'v1', kind: 'Node', metadata }]);
  await until(() => lineWith(agent.log, 'Node object found') >= 0, { what: 'the Node' });
  await agent.stop();
  node.manifests.remove('node.yaml');
});
