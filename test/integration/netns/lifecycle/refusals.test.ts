// SPDX-License-Identifier: Apache-2.0
// Failed starts: each prints one clear line, exits with its code and leaves nothing attached.
import { chmodSync, existsSync, mkdirSync, readdirSync, unlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type RunResult, run } from '../../../../src/sys/exec.ts';
import { runCommand } from '../../../../tools/lab/agent.ts';
import { compiledPath, insideSandbox } from '../../../../tools/lab/sandbox.ts';
import { service, target } from '../../../support/builders.ts';
import { pinMap } from '../../../support/dataplane/pin.ts';
import { startOneNode } from '../../../support/node.ts';
import { untilHolds } from '../../../support/until.ts';

let node: Awaited<ReturnType<typeof startOneNode>>;
beforeAll(async () => {
  node = await startOneNode(['a']);
  node.manifests.put('web.yaml', service('web', { n: 10 }, node.servers));
});
afterAll(() => node?.remove());

interface Attempt {
  readonly flags?: Readonly<Record<string, string>>;
  /** Prefix of the command line, e.g. a wrapper that drops privileges. */
  readonly wrapper?: readonly string[];
}

function start({ flags = {}, wrapper = [] }: Attempt): Promise<RunResult> {
  const { instance } = node;
  const all: Record<string, string> = {
    '--manifests': instance.manifests.path,
    '--hostname-override': 'n1',
    '--cgroup-root': instance.cgroupRoot,
    '--bpf-root': instance.bpfRoot,
    '--run-dir': instance.runDir,
    // With auto iptables would serve.
    '--engine': 'bpf',
    ...flags,
  };
  const args = ['run', ...Object.entries(all).flat()];
  const [program = '', ...rest] = insideSandbox(instance.sandbox, [
    ...wrapper,
    process.execPath,
    compiledPath('main.js'),
    ...args,
  ]);
  return run(program, rest, { timeoutMs: 60_000 });
}

/** The single line on stderr that is not a log line. */
function refusal({ stderr, code }: RunResult): { code: number; line: string } {
  const lines = stderr.split('\n').filter((line) => line !== '' && !line.startsWith('{'));
  expect(lines, stderr).toHaveLength(1);
  return { code, line: lines[0] ?? '' };
}

async function assertNothingAttached(): Promise<void> {
  const { links, maps } = {
    links: join(node.instance.bpfRoot, 'links'),
    maps: join(node.instance.bpfRoot, 'maps'),
  };
  for (const folder of [links, maps])
    expect(existsSync(folder) ? readdirSync(folder) : []).toEqual([]);
  // The kernel frees the links of a process that has ended a moment later.
  await untilHolds(async () => {
    const { stdout } = await run('bpftool', ['cgroup', 'show', node.instance.cgroupRoot]);
    expect(stdout).not.toContain('fl_');
  });
}

const without = (...capabilities: readonly string[]): readonly string[] => [
  'setpriv',
  `--bounding-set=${capabilities.map((name) => `-${name}`).join()}`,
];

const REFUSALS: readonly {
  readonly name: string;
  readonly attempt: () => Attempt;
  readonly code: number;
  readonly says: RegExp;
}[] = [
  {
    name: 'no CAP_BPF and no CAP_SYS_ADMIN',
    attempt: () => ({ wrapper: without('bpf', 'sys_admin') }),
    code: 5,
    says: /lacks CAP_BPF: run it as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON/,
  },
  {
    name: 'no CAP_PERFMON and no CAP_SYS_ADMIN',
    attempt: () => ({ wrapper: without('perfmon', 'sys_admin') }),
    code: 5,
    says: /lacks CAP_PERFMON: run it as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON/,
  },
  {
    name: 'no CAP_NET_ADMIN and no CAP_SYS_ADMIN',
    attempt: () => ({ wrapper: without('net_admin', 'sys_admin') }),
    code: 5,
    says: /lacks CAP_NET_ADMIN: run it as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON/,
  },
  {
    name: 'a cgroup root that is not a cgroup v2 directory',
    attempt: () => ({ flags: { '--cgroup-root': node.instance.runDir } }),
    code: 2,
    says: /--cgroup-root .* is not a directory of a cgroup v2 hierarchy: this machine has one at \//,
  },
  {
    name: 'a machine without cgroup v2',
    attempt: () => ({
      wrapper: [
        'unshare',
        '--mount',
        'sh',
        '-c',
        'grep " cgroup2 " /proc/mounts | cut -d" " -f2 | xargs -r -n1 umount -l; exec "$@"',
        'sh',
      ],
    }),
    code: 5,
    says: /no cgroup v2 hierarchy is mounted/,
  },
  {
    name: 'a kernel without BTF',
    attempt: () => ({
      wrapper: [
        'unshare',
        '--mount',
        'sh',
        '-c',
        'mount -t tmpfs none /sys/kernel/btf; exec "$@"',
        'sh',
      ],
    }),
    code: 5,
    says: /CONFIG_DEBUG_INFO_BTF/,
  },
  {
    name: 'a pin folder that is not on a bpf file system',
    attempt: () => ({ flags: { '--bpf-root': join(node.instance.runDir, 'pins') } }),
    code: 5,
    says: /is not on a bpf file system: mount one with `mount -t bpf bpf /,
  },
  {
    name: 'a bpf file system that is mounted read-only',
    attempt: () => {
      const mount = dirname(node.instance.bpfRoot);
      const readOnly = `mount --bind ${mount} ${mount} && mount -o remount,bind,ro ${mount}`;
      return { wrapper: ['unshare', '--mount', 'sh', '-c', `${readOnly}; exec "$@"`, 'sh'] };
    },
    code: 5,
    says: /is mounted read-only: run `mount -o remount,rw` on it/,
  },
  {
    name: 'a manifests folder that does not exist',
    attempt: () => ({ flags: { '--manifests': '/nonexistent/manifests' } }),
    code: 2,
    says: /--manifests \/nonexistent\/manifests does not exist/,
  },
  {
    name: 'a manifest file instead of a folder',
    attempt: () => ({ flags: { '--manifests': join(node.manifests.path, 'web.yaml') } }),
    code: 2,
    says: /--manifests .*web\.yaml is a file: name its directory, .*manifests$/,
  },
  {
    name: 'the fresh /sys of ip netns exec, which hides cgroup v2',
    attempt: () => ({ wrapper: ['ip', 'netns', 'exec', node.self.namespace] }),
    code: 5,
    says: /no cgroup v2 .* in this mount namespace.*nsenter --net=\/run\/netns\/fl\w+-n1 fairlead run/,
  },
  {
    name: 'no capabilities',
    attempt: () => ({ wrapper: ['setpriv', '--bounding-set=-all'] }),
    code: 5,
    says: /lacks CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON: run it as root/,
  },
  {
    name: 'a run directory that cannot be created',
    attempt: () => ({ flags: { '--run-dir': join(node.manifests.path, 'web.yaml', 'run') } }),
    code: 2,
    says: /--run-dir .*run cannot be used: ENOTDIR/,
  },
  {
    name: 'an unknown table in --map-size',
    attempt: () => ({ flags: { '--map-size': 'sockets=10' } }),
    code: 2,
    says: /must name one of frontends, backends.*, not "sockets=/,
  },
  {
    name: 'a detector without its interface',
    attempt: () => ({ flags: { '--detect-local-mode': 'BridgeInterface' } }),
    code: 2,
    says: /--pod-bridge-interface: must be set for detectLocalMode BridgeInterface/,
  },
];

test.each(REFUSALS)('$name', async ({ attempt, code, says }) => {
  const refused = refusal(await start(attempt()));
  expect(refused.line).toMatch(says);
  expect(refused.code).toBe(code);
  await assertNothingAttached();
});

test('a map pinned with another layout is named and kept; cleanup removes it', async () => {
  const { bpfRoot, runDir } = node.instance;
  const other = join(bpfRoot, 'maps', 'fl_service_v999');
  await pinMap(other);
  const foreign = join(bpfRoot, 'other', 'maps', 'fl_service');
  await pinMap(foreign);
  const refused = refusal(await start({}));
  expect(refused.code).toBe(1);
  expect(refused.line).toMatch(/fl_service_v999 has another layout than the fl_service.*cleanup/);
  expect(existsSync(other)).toBe(true);
  const args = ['cleanup', '--bpf-root', bpfRoot, '--run-dir', runDir];
  const { stdout } = await runCommand(node.instance, args);
  expect(stdout).toContain('removed map maps/fl_service_v999');
  expect(existsSync(dirname(other))).toBe(false);
  expect(existsSync(foreign)).toBe(true);
  unlinkSync(foreign);
});

test('an object rejected by the verifier: the error has its message, and nothing stays', async () => {
  const folder = join(node.instance.runDir, 'broken');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'sock.bpf.o'), 'this is no object');
  chmodSync(folder, 0o755);
  const refused = refusal(await start({ wrapper: ['env', `FAIRLEAD_BPF_DIR=${folder}`] }));
  expect(refused.code).not.toBe(0);
  await assertNothingAttached();
});

test('pins whose hooks serve another cgroup: the error names its id, and that cgroup stays served', async () => {
  await (await node.startAgent()).stop();
  const refused = refusal(
    await start({ flags: { '--cgroup-root': dirname(node.instance.cgroupRoot) } }),
  );
  expect(refused.code).toBe(1);
  expect(refused.line).toMatch(/serves the cgroup with id \d+, --cgroup-root .* has id \d+/);
  expect(await node.client().once(target({ n: 10 }))).toMatchObject({ kind: 'answered' });
});

test('a missing addon is reported in one line', async () => {
  const refused = refusal(await start({ wrapper: ['env', 'FAIRLEAD_ADDON=/nonexistent.node'] }));
  expect(refused).toEqual({
    code: 5,
    line: expect.stringMatching(/cannot load the addon.*npm run build:native/),
  });
});

test('a second agent of one instance fails and names the first by pid; the first keeps running', async () => {
  const agent = await node.startAgent();
  const refused = refusal(await start({}));
  expect(refused.code).toBe(1);
  expect(refused.line).toMatch(/another fairlead \(pid \d+\) serves .*agent\.sock/);
  expect(await node.client().once(target({ n: 10 }))).toMatchObject({ kind: 'answered' });
  await agent.stop();
});

test('a second agent with the same --bpf-root and another --run-dir fails and names the first', async () => {
  const { bpfRoot, runDir, nodeName } = node.instance;
  const other = { '--run-dir': `${runDir}-other`, '--hostname-override': 'n2' };
  const first = await node.startAgent();
  const refused = refusal(await start({ flags: other }));
  expect(refused).toEqual({
    code: 1,
    line: expect.stringContaining(
      `--bpf-root ${bpfRoot} is in use by another fairlead (agent with pid ${first.child.pid}, node ${nodeName}, --run-dir ${runDir})`,
    ),
  });
  const paths = ['--bpf-root', bpfRoot, '--run-dir', `${runDir}-other`];
  const cleanup = await runCommand(node.instance, ['cleanup', ...paths]);
  expect(cleanup.code).toBe(1);
  expect(cleanup.stderr).toContain('is in use by another fairlead');
  expect(await node.client().once(target({ n: 10 }))).toMatchObject({ kind: 'answered' });
  // The kernel releases the lock of a killed process.
  await first.kill();
  const second = await node.startAgent(Object.entries(other).flat());
  expect(await node.client().once(target({ n: 10 }))).toMatchObject({ kind: 'answered' });
  await second.stop();
  expect(readdirSync(bpfRoot)).not.toContain('holder');
});
