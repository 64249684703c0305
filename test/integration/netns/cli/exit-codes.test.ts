// SPDX-License-Identifier: Apache-2.0
// The exit codes of the commands that show state, for each state in docs/errors.md of a running agent.
import { mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import {
  type Child,
  type RunResult,
  run,
  type StartOptions,
  start,
  stop,
} from '../../../../src/sys/exec.ts';
import { ownPaths, runCommand } from '../../../../tools/lab/agent.ts';
import type { Manifest } from '../../../../tools/lab/manifests.ts';
import { compiledPath, insideSandbox } from '../../../../tools/lab/sandbox.ts';
import { service, svc } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';
import { NOBODY, readableMain } from '../../../support/programs/nobody.ts';
import { until, untilHolds } from '../../../support/until.ts';

let node: Awaited<ReturnType<typeof startOneNode>>;
afterEach(() => node?.remove());

async function startServed(flags: readonly string[] = []): Promise<void> {
  node = await startOneNode(['a']);
  node.manifests.put('web.yaml', service('web', { n: 10 }, node.servers));
  await node.startAgent(flags);
}

const command = (...args: readonly string[]): Promise<RunResult> => runCommand(node.instance, args);
const status = (...args: readonly string[]): Promise<RunResult> =>
  command('status', '--run-dir', node.instance.runDir, ...args);
const services = (...args: readonly string[]): Promise<RunResult> =>
  command('services', ...ownPaths(node.instance), ...args);

const API_PORT = 8001;

/** An agent of an API server at API_PORT of the node. */
function startClusterAgent(): Child {
  const { instance } = node;
  const source = ['--api-server', `http://127.0.0.1:${API_PORT}`, '--hostname-override', 'n1'];
  const args = ['run', ...source, '--cgroup-root', instance.cgroupRoot, ...ownPaths(instance)];
  return startInSandbox([compiledPath('main.js'), ...args]);
}

async function startApiServer(objects: readonly Manifest[]): Promise<Child> {
  const lines: string[] = [];
  const script = new URL('../fixture/api-server.mjs', import.meta.url).pathname;
  const argv = [script, String(API_PORT), JSON.stringify(objects)];
  const server = startInSandbox(argv, { onStdoutLine: (line) => lines.push(line) });
  await until(() => lines.includes('ready'), { what: 'the API server' });
  return server;
}

function startInSandbox(argv: readonly string[], options: StartOptions = {}): Child {
  const [program = '', ...rest] = insideSandbox(node.instance.sandbox, [process.execPath, ...argv]);
  return start(program, rest, options);
}

/** Waits until `status` has this exit code and first line. */
async function becomes(code: number, health: string): Promise<void> {
  await untilHolds(async () => {
    const result = await status();
    expect([result.code, result.stdout.split('\n')[0]]).toEqual([code, `Health:     ${health}`]);
  });
}

const withPorts = (name: string, n: number, ports: object): Manifest => {
  const made = svc(name, { n });
  return { ...made, spec: { ...(made['spec'] as object), ...ports } };
};

test('0 in sync, 3 while an object is rejected or a manifest is unreadable', async () => {
  await startServed();
  await becomes(0, 'in sync');
  node.manifests.put('bad.yaml', [withPorts('bad', 20, { ports: [{ port: 0 }] })]);
  await becomes(3, 'degraded: 1 rejected object or field');
  node.manifests.remove('bad.yaml');
  await becomes(0, 'in sync');
  node.manifests.putText('unreadable.yaml', 'a: [');

  await becomes(3, 'degraded: 1 rejected object or field');
  node.manifests.remove('unreadable.yaml');
  await becomes(0, 'in sync');
});

test('3 while a frontend is not served: SCTP, without programs on devices', async () => {
  await startServed(['--devices', 'none']);
  const sctp = { ports: [{ port: 80, protocol: 'SCTP' }], clusterIPs: ['10.96.0.20'] };
  node.manifests.put('sctp.yaml', [withPorts('sctp', 20, sctp)]);
  await becomes(3, 'degraded: 1 frontend not served');
  node.manifests.remove('sctp.yaml');
  await becomes(0, 'in sync');
});

test('a NodePort that is served only for sockets of this node is a limitation, and exits with 0', async () => {
  await startServed(['--devices', 'none']);
  const ports = { type: 'NodePort', ports: [{ name: 'main', port: 80, nodePort: 30080 }] };
  node.manifests.put('node-port.yaml', [withPorts('np', 20, ports)]);
  await untilHolds(async () => {
    const { stdout, code } = await status();
    expect(stdout).toMatch(/^Limit: +not served by bpf: packets from outside: default\/np$/m);
    expect(code).toBe(0);
  });
});

test('3 while frontends are missing: deleted by hand, or the map is full', async () => {
  await startServed(['--map-size', 'frontends=4']);
  await becomes(0, 'in sync');
  const pin = join(node.instance.bpfRoot, 'maps', 'fl_frontend4');
  const key = '0a 60 00 0a 50 00 06 00'.split(' ');
  const deleted = await run('bpftool', ['map', 'delete', 'pinned', pin, 'key', 'hex', ...key]);
  expect(deleted).toMatchObject({ code: 0, stderr: '' });
  await becomes(3, 'degraded: 1 frontend missing');
  const row = (await services('web')).stdout.split('\n')[1];
  expect(row).toMatch(/10\.96\.0\.10:80\/TCP +IPv4 +0\/1 +missing/);
  for (const n of [21, 22]) node.manifests.put(`${n}.yaml`, service(`s${n}`, { n }, node.servers));
  await untilHolds(async () => {
    const { stdout, code } = await status();
    expect(stdout).toMatch(/^Failed: +default\/s22 .*is full/m);
    expect(stdout).toMatch(
      /^Health: +degraded: \d+ entr\w+ failed to sync, \d+ frontends? missing/,
    );
    expect(code).toBe(3);
  });
});

test('3 while it starts, and 124 if waiting for it times out', async () => {
  node = await startOneNode(['a']);
  // Nothing listens there: the API server is down from the start.
  const agent = startClusterAgent();
  try {
    await untilHolds(async () => {
      const { stdout, code } = await status();
      expect(stdout).toMatch(/^Health: +starting: the initial sync is not complete$/m);
      expect(stdout).toMatch(/^Problem: +API server http:\/\/127\.0\.0\.1:8001/m);
      expect(code).toBe(3);
    });
    const late = await status('--wait', '--timeout', '0.2');
    expect(late).toMatchObject({
      code: 124,
      stderr: expect.stringMatching(/not ready within 0\.2 s/),
    });
  } finally {
    await stop(agent);
  }
});

test('3 while the API server is down, though everything is programmed', async () => {
  node = await startOneNode(['a']);
  const metadata = { uid: 'u1', resourceVersion: '1' };
  const kubernetes = svc('kubernetes', { n: 1 });
  const own: Manifest = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'n1' } };
  const web = service('web', { n: 10 }, node.servers);
  const objects = [own, kubernetes, ...web].map((object) => ({
    ...object,
    metadata: { ...(object['metadata'] as object), ...metadata },
  }));
  const server = await startApiServer(objects);
  const agent = startClusterAgent();
  try {
    await until(
      async () => (await status('--wait', '--timeout', '1s')).code === 0,
      'the initial sync',
    );
    await becomes(0, 'in sync');
    await stop(server);
    await untilHolds(async () => {
      const { stdout, code } = await status();
      expect(stdout).toMatch(/^Health: +degraded: \d+ source problems?$/m);
      expect(stdout).toMatch(/^Problem: +API server http:\/\/127\.0\.0\.1:8001/m);
      expect(stdout).toMatch(/^Services: +2, with 4 frontends \(4 in sync\)$/m);
      expect(code).toBe(3);
    });
  } finally {
    await Promise.all([stop(agent), stop(server)]);
  }
});

test('3 while the folder of manifests is gone', async () => {
  await startServed();
  const { path } = node.manifests;
  renameSync(path, `${path}-away`);
  await untilHolds(async () => {
    const { stdout, code } = await status();
    expect(stdout).toMatch(/^Health: +degraded: /);
    expect(code).toBe(3);
  });
  renameSync(`${path}-away`, path);
  await becomes(0, 'in sync');
});

test('2 usage, 3 no agent, 4 not found', async () => {
  await startServed();
  const none = ['--run-dir', join(node.instance.runDir, 'none')];
  expect((await command('status', ...none)).code).toBe(3);
  expect(
    (await command('explain', ...none, '--from', '10.1.1.9', '--to', '10.96.0.10:80')).code,
  ).toBe(3);
  expect((await status('-o', 'xml')).code).toBe(2);
  expect((await status('--timeout', 'soon')).code).toBe(2);
  expect((await services('-l', 'a in b')).code).toBe(2);
  expect(await services('nope')).toMatchObject({
    code: 4,
    stderr: 'fairlead: Service "nope" not found\n',
  });
  expect(await services('web', '-n', 'other')).toMatchObject({
    code: 4,
    stderr: 'fairlead: Service "web" not found in namespace other\n',
  });
  expect(await services('-n', 'other')).toEqual({
    code: 0,
    stdout: '',
    stderr: 'No services found in namespace other.\n',
  });
  const pins = ['--bpf-root', join(node.instance.bpfRoot, 'none')];
  expect((await command('services', ...none, ...pins)).code).toBe(4);
});

const openMain = readableMain();
const asNobody = (...args: readonly string[]): Promise<RunResult> => {
  const argv = [...NOBODY, process.execPath, openMain, ...args];
  const [program = '', ...rest] = insideSandbox(node.instance.sandbox, argv);
  return run(program, rest);
};

test('1 for a folder of manifests without read permission', async () => {
  node = await startOneNode(['a']);
  const folder = mkdtempSync(join(tmpdir(), 'unlisted-'));
  try {
    expect(await asNobody('validate', folder)).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/^\S+: error: EACCES: permission denied/),
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('5 without permission, and the message does not claim that the agent is down', async () => {
  await startServed();
  const { instance } = node;
  const runDir = ['--run-dir', instance.runDir];
  const paths = ownPaths(instance);
  const explain = ['explain', ...runDir, '--from', '10.1.1.9', '--to', '10.96.0.10:80'];
  for (const args of [
    ['status', ...runDir],
    ['services', ...paths],
    ['backends', ...paths],
    explain,
  ]) {
    expect(await asNobody(...args), args[0]).toMatchObject({
      code: 5,
      stdout: '',
      stderr: expect.stringMatching(
        /^fairlead: permission denied on the agent's socket .*as root\n$/,
      ),
    });
  }
  expect(await asNobody('status', ...runDir, '--wait')).toMatchObject({ code: 5 });
  const elsewhere = join(instance.runDir, 'none');
  mkdirSync(elsewhere);
  expect(await asNobody('services', ...paths.slice(0, 2), '--run-dir', elsewhere)).toMatchObject({
    code: 5,
    stderr: expect.stringMatching(/^fairlead: permission denied on .*as root\n$/),
  });
});

test('a command whose pipe is closed ends quietly, with its proper exit code', async () => {
  await startServed();
  node.manifests.put('bad.yaml', [withPorts('bad', 20, { ports: [{ port: 0 }] })]);
  await becomes(3, 'degraded: 1 rejected object or field');
  const self = `"${process.execPath}" "${compiledPath('main.js')}"`;
  const paths = ownPaths(node.instance);
  // The reader has exited before the first line.
  const piped = async (args: string) => {
    const line = `{ ${self} ${args}; echo "code $?" >&2; } | true`;
    return (await run('sh', ['-c', line])).stderr;
  };
  expect(await piped(`services ${paths.join(' ')}`)).toBe('code 0\n');
  expect(await piped(`services -w ${paths.join(' ')}`)).toBe('code 0\n');
  expect(await piped(`status ${paths.slice(2).join(' ')}`)).toBe('code 3\n');
});

test('--watch prints YAML documents with a separator, and again after a change', async () => {
  await startServed();
  const lines: string[] = [];
  const args = ['services', ...ownPaths(node.instance), '-w', '-o', 'yaml'];
  const [program = '', ...rest] = insideSandbox(node.instance.sandbox, [
    ...[process.execPath, compiledPath('main.js'), ...args],
  ]);
  const child = start(program, rest, { onStdoutLine: (line) => lines.push(line) });
  try {
    await until(() => lines.includes('kind: ServiceList'), { what: 'the first state' });
    node.manifests.put('more.yaml', service('more', { n: 20 }, node.servers));
    await until(() => lines.some((line) => line.includes('name: more')), { what: 'the second' });
    expect(lines.filter((line) => line === '---')).toHaveLength(1);
  } finally {
    await stop(child);
  }
});
