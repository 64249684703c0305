// SPDX-License-Identifier: Apache-2.0
// Bypassed cgroups: their sockets are not translated, all others are.
import { mkdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { mapPath, pinFolder } from '../../../../src/engines/bpf/kernel/loader/pins.ts';
import { SKIPPED_CGROUPS_OFFSET } from '../../../../src/engines/bpf/layout/layout.ts';
import {
  cgroupId,
  findCgroup2,
  findCgroups,
  insideCgroup,
  makeCgroup,
  removeCgroup,
} from '../../../../src/sys/cgroup.ts';
import { run, start } from '../../../../src/sys/exec.ts';
import { openPinnedMap } from '../../../../src/sys/native.ts';
import { type Agent, runCommand } from '../../../../tools/lab/agent.ts';
import { compiledPath } from '../../../../tools/lab/sandbox.ts';
import { startClient } from '../../../../tools/lab/traffic.ts';
import { service, target } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';
import { NOBODY, readableMain } from '../../../support/programs/nobody.ts';
import { until } from '../../../support/until.ts';

const web = { n: 10 };
const dns = { n: 53, port: 53, targetPort: 5353, protocol: 'UDP' } as const;
let node: Awaited<ReturnType<typeof startOneNode>>;
let agent: Agent;

beforeAll(async () => {
  node = await startOneNode(['web-1', 'web-2'], ['client-1', 'client-2']);
  node.manifests.put('web.yaml', service('web', web, node.servers));
  node.manifests.put('dns.yaml', service('dns', dns, node.servers));
  agent = await node.startAgent();
});
afterAll(() => node?.remove());

const bypass = (...args: string[]) =>
  runCommand(node.instance, ['bypass', ...args, '--bpf-root', node.instance.bpfRoot]);

async function isServed(index: number): Promise<boolean> {
  const answers = [
    await node.client(index).once(target(web, 'IPv4')),
    await node.client(index).once(target(web, 'IPv6')),
    await node.client(index).once(target(dns)),
  ];
  const kinds = new Set(answers.map(({ kind }) => kind));
  expect(kinds.size).toBe(1);
  return kinds.has('answered');
}

test('a bypassed pod is not translated, other pods are, and the bypass can be removed', async () => {
  const { cgroup } = node.sandboxes[0]!;
  expect([await isServed(0), await isServed(1)]).toEqual([true, true]);
  expect(await bypass('add', cgroup)).toMatchObject({ code: 0 });
  expect([await isServed(0), await isServed(1)]).toEqual([false, true]);
  const { stdout } = await bypass('list');
  expect(stdout.split('\n').map((line) => line.trim().split(/ {2,}/))).toEqual([
    ['ID', 'STATE', 'PATH', 'ADDRESSES', 'REASON'],
    [String(cgroupId(cgroup)), 'bypassed', cgroup, '-', 'fairlead bypass add'],
    [''],
  ]);
  expect(await bypass('remove', cgroup)).toMatchObject({ code: 0 });
  expect([await isServed(0), await isServed(1)]).toEqual([true, true]);
  expect((await bypass('list')).stdout.trim()).toBe(
    'No cgroups are bypassed, and no network namespace is served as packets',
  );
});

test('partly removed pins do not count as an instance', async () => {
  const bpfRoot = `${node.instance.bpfRoot}-removed`;
  const maps = pinFolder(bpfRoot).maps;
  mkdirSync(maps, { recursive: true });
  const map = openPinnedMap(join(pinFolder(node.instance.bpfRoot).maps, 'fl_cgroup_skip'));
  map.pin(join(maps, 'fl_cgroup_skip'));
  map.close();
  const args = ['bypass', 'list', '--bpf-root', bpfRoot];
  expect(await runCommand(node.instance, args)).toMatchObject({
    code: 4,
    stderr: expect.stringContaining('no maps are pinned below'),
  });
  rmSync(bpfRoot, { recursive: true });
});

test('it applies to descendant cgroups, and outlives the agent', async () => {
  const sandbox = node.sandboxes[1]!;
  const below = { ...sandbox, cgroup: `${sandbox.cgroup}/container` };
  makeCgroup(below.cgroup);
  const client = await startClient(below);
  expect(await client.once(target(web))).toMatchObject({ kind: 'answered' });
  await bypass('add', sandbox.cgroup);
  expect((await client.once(target(web))).kind).toBe('failed');
  await agent.kill();
  expect((await client.once(target(web))).kind).toBe('failed');
  agent = await node.startAgent();
  expect((await client.once(target(web))).kind).toBe('failed');
  expect(await isServed(0)).toBe(true);
  await bypass('remove', sandbox.cgroup);
  expect(await client.once(target(web))).toMatchObject({ kind: 'answered' });
});

/** Whether a client in `cgroup` is still served while `bypassed` is bypassed. */
async function isAnsweredWith(bypassed: string, cgroup: string): Promise<boolean> {
  makeCgroup(cgroup);
  const client = await startClient({ ...node.sandboxes[0]!, cgroup });
  expect(await client.once(target(web))).toMatchObject({ kind: 'answered' });
  expect(await bypass('add', bypassed)).toMatchObject({ code: 0, stderr: '' });
  const { kind } = await client.once(target(web));
  expect(await bypass('remove', bypassed)).toMatchObject({ code: 0 });
  expect(await client.once(target(web))).toMatchObject({ kind: 'answered' });
  return kind === 'answered';
}

const below = (cgroup: string, levels: number): string =>
  join(cgroup, ...Array.from({ length: levels }, (_, level) => `l${level}`));

test('it applies at any depth, and to cgroups above --cgroup-root up to the root itself', async () => {
  const { cgroup } = node.sandboxes[0]!;
  const deep = below(cgroup, 12);
  expect(await isAnsweredWith(deep, deep)).toBe(false);
  expect(await isAnsweredWith(cgroup, deep)).toBe(false);
  expect(await isAnsweredWith(below(cgroup, 6), below(cgroup, 5))).toBe(true);
  expect(await isAnsweredWith(dirname(node.instance.cgroupRoot), cgroup)).toBe(false);
  expect(await isAnsweredWith(findCgroup2()!, cgroup)).toBe(false);
});

test('it works when requested inside a cgroup namespace', async () => {
  const { instance, sandboxes } = node;
  // As in a container of kind: its root is the cgroup that the hooks are attached to.
  const mountThere = 'mount -t cgroup2 none /mnt && exec "$@"';
  const inside = (...args: string[]) => {
    const command = [process.execPath, compiledPath('main.js'), 'bypass', ...args];
    const [shell = '', ...rest] = insideCgroup(instance.cgroupRoot, [
      ...['unshare', '--cgroup', '--mount', 'sh', '-c', mountThere, 'sh'],
      ...[...command, '--bpf-root', instance.bpfRoot],
    ]);
    return run(shell, rest);
  };
  const own = sandboxes[0]!.cgroup.slice(instance.cgroupRoot.length);
  expect(await inside('add', `/mnt${own}`)).toMatchObject({ code: 0, stderr: '' });
  expect([await isServed(0), await isServed(1)]).toEqual([false, true]);
  expect((await inside('list')).stdout).toMatch(new RegExp(`bypassed +/mnt${own} `));
  expect(await inside('remove', `/mnt${own}`)).toMatchObject({ code: 0 });
  expect(await inside('add', '/mnt')).toMatchObject({ code: 0, stderr: '' });
  expect([await isServed(0), await isServed(1)]).toEqual([false, false]);
  await inside('remove', '/mnt');
  expect([await isServed(0), await isServed(1)]).toEqual([true, true]);
  const hidden = dirname(instance.cgroupRoot);
  await bypass('add', hidden);
  expect(await inside('remove', '--gone')).toMatchObject({ code: 2 });
  expect(countedByPrograms()).toBe(1);
  await bypass('remove', hidden);
  expect(countedByPrograms()).toBe(0);
});

/** The number of bypassed cgroups; with 0 the programs look for none. */
function countedByPrograms(): number {
  const map = openPinnedMap(mapPath(node.instance.bpfRoot, 'fl_runtime'));
  try {
    return new DataView(map.mmap()).getUint32(SKIPPED_CGROUPS_OFFSET, true);
  } finally {
    map.close();
  }
}

test('a deleted cgroup is listed as such, and removed by its id', async () => {
  const cgroup = join(node.sandboxes[0]!.cgroup, 'short-lived');
  makeCgroup(cgroup);
  const id = String(cgroupId(cgroup));
  await bypass('add', cgroup);
  removeCgroup(cgroup);
  const { stdout } = await bypass('list', '-o', 'json');
  expect(JSON.parse(stdout)).toMatchObject({ items: [{ id, state: 'gone' }] });
  expect(await bypass('remove', id)).toMatchObject({ code: 0 });
  expect((await bypass('list')).stdout.trim()).toBe(
    'No cgroups are bypassed, and no network namespace is served as packets',
  );
});

test('--gone removes deleted cgroups and no others', async () => {
  const { cgroup } = node.sandboxes[0]!;
  const gone = ['one', 'two'].map((name) => join(cgroup, name));
  for (const path of gone) makeCgroup(path);
  const ids = gone.map((path) => String(cgroupId(path)));
  for (const path of [cgroup, ...gone]) await bypass('add', path);
  for (const path of gone) removeCgroup(path);
  const { code, stdout } = await bypass('remove', '--gone');
  expect([code, stdout.trim().split('\n').sort()]).toEqual([
    0,
    ids.map((id) => `no longer bypassed: cgroup id ${id}, which is gone`).sort(),
  ]);
  expect((await bypass('remove', '--gone')).stdout).toBe('Every bypassed cgroup exists\n');
  expect(await bypass('remove', cgroup)).toMatchObject({ code: 0 });
  expect(await bypass('remove')).toMatchObject({ code: 2 });
  expect(await bypass('remove', cgroup, '--gone')).toMatchObject({ code: 2 });
});

/** Makes and removes a cgroup and one below it until it is killed. */
const COMES_AND_GOES = `
  const { mkdirSync, rmdirSync } = await import('node:fs');
  const outer = process.argv[1];
  console.log('ready');
  for (;;) {
    mkdirSync(outer + '/inner', { recursive: true });
    rmdirSync(outer + '/inner');
    rmdirSync(outer);
  }
`;

test('cgroups of others come and go while the hierarchy is read', async () => {
  const parent = join(dirname(node.instance.cgroupRoot), 'pods');
  makeCgroup(parent);
  let isRunning = false;
  const args = ['--input-type=module', '-e', COMES_AND_GOES, join(parent, 'pod')];
  const child = start(process.execPath, args, { onStdoutLine: () => (isRunning = true) });
  try {
    await until(() => isRunning, 'the first of them');
    const none = new Set([0n]);
    for (let walk = 0; walk < 20_000; walk += 1) expect(findCgroups(none, parent).size).toBe(0);
  } finally {
    child.kill('SIGKILL');
    await child.exited;
    removeCgroup(parent);
  }
});

const openMain = readableMain();

test.each([['list'], ['remove', '7'], ['add', '.']])(
  '%s as nobody says what to do',
  async (...args) => {
    const target = args[1] === '.' ? [node.sandboxes[0]!.cgroup] : args.slice(1);
    const main = [process.execPath, openMain, 'bypass', args[0]!, ...target];
    const [command = '', ...rest] = [...NOBODY, ...main, '--bpf-root', node.instance.bpfRoot];
    const { code, stderr } = await run(command, rest);
    expect([code, stderr]).toEqual([
      5,
      `fairlead: permission denied on the pins below ${node.instance.bpfRoot}: run this command as root\n`,
    ]);
  },
);

test('a bypass that cannot work is rejected with the reason', async () => {
  const { cgroupRoot } = node.instance;
  const beside = join(dirname(cgroupRoot), 'tools');
  expect(await bypass('add', beside)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(
      `sockets of ${beside} are not translated, so there is nothing to bypass: the hooks serve ${cgroupRoot}`,
    ),
  });
  const tooDeep = below(node.sandboxes[0]!.cgroup, 64);
  makeCgroup(tooDeep);
  expect(await bypass('add', tooDeep)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('the hooks check only 63'),
  });
  removeCgroup(below(node.sandboxes[0]!.cgroup, 1));
});

test('an open connection of a pod that becomes bypassed continues', async () => {
  const socket = await node.client().open(target(web));
  await bypass('add', node.sandboxes[0]!.cgroup);
  expect(await socket.talk('still here')).toMatchObject({ text: 'still here' });
  await bypass('remove', node.sandboxes[0]!.cgroup);
  await socket.close();
});

test('clear errors for paths that are not cgroups and cgroups that are not bypassed', async () => {
  expect(await bypass('add', node.instance.runDir)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('not a directory of a cgroup v2'),
  });
  expect(await bypass('remove', node.sandboxes[0]!.cgroup)).toMatchObject({ code: 4 });
  expect(await bypass('add', '/no/such/folder')).toMatchObject({
    code: 4,
    stderr: 'fairlead: /no/such/folder does not exist\n',
  });
});
