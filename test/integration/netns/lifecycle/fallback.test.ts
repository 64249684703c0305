// SPDX-License-Identifier: Apache-2.0
// --engine auto where eBPF cannot serve, or not all of it: rules do, and log and status say why. With a forced
// engine, and where it would do harm, the start fails with the reason that a probe finds.
import { copyFileSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type Child, run, start, stop } from '../../../../src/sys/exec.ts';
import { bpfObjectPath, packageRoot } from '../../../../src/sys/package.ts';
import { runCommand } from '../../../../tools/lab/agent.ts';
import { compiledPath, insideSandbox } from '../../../../tools/lab/sandbox.ts';
import { startClient } from '../../../../tools/lab/traffic.ts';
import { service, target } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';
import { forbidBpf } from '../../../support/seccomp/forbid-bpf.ts';
import { AT_ONCE_MS, until } from '../../../support/until.ts';

const OBJECT = 'packet.bpf.o';
const web = { n: 10 };
const UP = ['link set out up', 'link set out-peer up', 'route add default dev out'];

let node: Awaited<ReturnType<typeof startOneNode>>;
let withoutPackets: string;
let running: Child | undefined;

beforeAll(async () => {
  withoutPackets = mkdtempSync(join(tmpdir(), 'fairlead-refused-'));
  const built = dirname(bpfObjectPath(OBJECT));
  for (const name of readdirSync(built))
    copyFileSync(join(built, name), join(withoutPackets, name));
  copyFileSync(join(packageRoot(), 'build/bpf-test/refused.bpf.o'), join(withoutPackets, OBJECT));
  node = await startOneNode(['web']);
  node.manifests.put('web.yaml', service('web', web, node.servers));
  // A node without a default route answers itself that there is none, before any rule.
  for (const line of ['link add out type veth peer name out-peer', ...UP]) {
    const [program = '', ...args] = insideSandbox(node.self, ['ip', ...line.split(' ')]);
    expect((await run(program, args)).stderr).toBe('');
  }
});
afterAll(() => {
  node?.remove();
  rmSync(withoutPackets, { recursive: true, force: true });
});
// A test that fails leaves its agent running: the next one would fail on its lock.
afterEach(async () => {
  if (running !== undefined) await stop(running);
  running = undefined;
});

function startWith(wrapper: readonly string[], flags: readonly string[] = []) {
  const { instance } = node;
  const { manifests, cgroupRoot, bpfRoot, runDir } = instance;
  const paths = ['--cgroup-root', cgroupRoot, '--bpf-root', bpfRoot, '--run-dir', runDir];
  const source = ['--manifests', manifests.path, '--hostname-override', 'n1'];
  const main = [process.execPath, compiledPath('main.js'), 'run', ...source, ...paths, ...flags];
  const [program = '', ...args] = insideSandbox(instance.sandbox, [...wrapper, ...main]);
  const log: string[] = [];
  const child = start(program, args, { onStderrLine: (line) => log.push(line) });
  running = child;
  return { child, log };
}

const ready = (log: readonly string[]) =>
  until(() => log.some((line) => line.includes('"msg":"ready"')), `ready: ${log.slice(-3)}`);

const statusText = async () => {
  const at = ['--run-dir', node.instance.runDir];
  return await runCommand(node.instance, ['status', ...at]);
};

async function end(child: Child): Promise<void> {
  expect(await stop(child)).toBe(0);
  const at = ['--run-dir', node.instance.runDir, '--bpf-root', node.instance.bpfRoot];
  expect((await runCommand(node.instance, ['cleanup', ...at])).code).toBe(0);
}

/** From a process of the node. */
async function once() {
  const client = await startClient(node.self);
  try {
    return await client.once(target(web), AT_ONCE_MS);
  } finally {
    await client.stop();
  }
}

test('BPF is forbidden: nftables serves, is in sync, and says why', async () => {
  const { child, log } = startWith(forbidBpf('EPERM'));
  await ready(log);
  expect(await once()).toMatchObject({ kind: 'answered', backend: 'web' });
  const { code, stdout } = await statusText();
  expect(stdout).toMatch(/^Dataplane: +nftables;/m);
  expect(stdout).toMatch(
    /^Fallback: +sockets and packets by nftables: a seccomp filter of this process answers bpf\(2\) with EPERM: allow bpf\(2\) in the seccomp profile/m,
  );
  expect(code, stdout).toBe(0);
  const cause = await until(() => log.find((line) => line.includes('probe result')), 'it');
  expect(cause).toContain('bpf(): a seccomp filter of this process answers bpf(2) with EPERM');
  await end(child);
});

test('the packet programs are refused: sockets by eBPF, packets by nftables', async () => {
  const { child, log } = startWith(['env', `FAIRLEAD_BPF_DIR=${withoutPackets}`]);
  await ready(log);
  expect(await once()).toMatchObject({ kind: 'answered', backend: 'web' });
  const { code, stdout } = await statusText();
  expect(stdout).toMatch(/^Dataplane: +bpf \+ nftables, 11 hooks on /m);
  expect(stdout).toMatch(/^Fallback: +packets by nftables: the kernel refused a program/m);
  expect(code, stdout).toBe(0);
  const args = ['--from', '192.0.2.1', '--to', '10.96.0.10:80/tcp', '-o', 'json'];
  const at = ['--run-dir', node.instance.runDir];
  const explained = await runCommand(node.instance, ['explain', ...args, ...at]);
  expect(JSON.parse(explained.stdout)).toMatchObject({ dataplane: 'nftables' });
  await end(child);
});

test('PREEMPT_RT: sockets by eBPF, packets by nftables; probe says why', async () => {
  const version = join(withoutPackets, 'version');
  writeFileSync(version, '#1 SMP PREEMPT_RT Debian 6.12.43-1 (2025-08-27)\n');
  const mount = 'mount --bind "$0" /proc/sys/kernel/version && exec "$@"';
  const wrapper = ['unshare', '--mount', 'sh', '-c', mount, version];
  const { child, log } = startWith(wrapper);
  await ready(log);
  expect(await once()).toMatchObject({ kind: 'answered', backend: 'web' });
  const { code, stdout } = await statusText();
  expect(stdout).toMatch(/^Dataplane: +bpf \+ nftables, 11 hooks on /m);
  expect(stdout).toMatch(/^Fallback: +packets by nftables: this kernel is PREEMPT_RT/m);
  expect(code, stdout).toBe(0);
  const probe = await runCommand({ ...node.instance, wrapper }, ['probe', '-o', 'json']);
  const { items } = JSON.parse(probe.stdout) as { items: { feature: string; answer: string }[] };
  const no = items.filter(({ answer }) => answer === 'no').map(({ feature }) => feature);
  expect(no).toContain('softirqs');
  await end(child);
});

test.each([
  ['its FORWARD drops', 'iptables-nft -P FORWARD DROP', 'iptables-nft -P FORWARD ACCEPT'],
  ['kube-proxy has rules in it', 'iptables-nft -t nat -N KUBE-SERVICES', 'iptables-nft -t nat -X'],
  ['legacy translates', 'iptables-legacy -t nat -N OTHERS', ''],
])('iptables serves where this node uses it: %s', async (_, before, after) => {
  const inNode = (line: string) => {
    const [program = '', ...args] = insideSandbox(node.self, line.split(' '));
    return run(program, args);
  };
  expect(await inNode(before)).toMatchObject({ code: 0 });
  const { child, log } = startWith(forbidBpf('EPERM'));
  await ready(log);
  expect((await statusText()).stdout).toMatch(/^Dataplane: +iptables;/m);
  expect(await once()).toMatchObject({ kind: 'answered', backend: 'web' });
  await end(child);
  if (after !== '') expect(await inNode(after)).toMatchObject({ code: 0 });
});

test('neither eBPF nor rules: sockets of the agent serve, and status says why', async () => {
  const { child, log } = startWith([...forbidBpf('EPERM'), '/usr/bin/env', 'PATH=/nowhere']);
  await ready(log);
  expect(await once()).toMatchObject({ kind: 'answered', backend: 'web' });
  expect((await statusText()).stdout).toMatch(
    /^Fallback: +sockets and packets by userspace: no iptables works on this node: .*; nftables does not work on this node: .*; and eBPF cannot serve: /m,
  );
  await end(child);
});

/** The only line on stderr that is not a line of the log. */
const lastWords = (log: readonly string[]): string =>
  log.filter((line) => !line.startsWith('{')).join('\n');

test('a forced engine fails, with the reason of the probe and what would change it', async () => {
  const { child, log } = startWith(forbidBpf('ENOSYS'), ['--engine', 'bpf']);
  expect(await child.exited).toBe(5);
  expect(lastWords(log)).toMatch(
    /^fairlead: --engine bpf cannot work on this node: bpf\(\): a seccomp filter of this process answers bpf\(2\) with ENOSYS; what would change it: allow bpf\(2\) in the seccomp profile/,
  );
});

test('with --devices none, where packets are left to somebody else, auto fails as well', async () => {
  const { child, log } = startWith(forbidBpf('EPERM'), ['--devices', 'none']);
  expect(await child.exited).toBe(5);
  expect(lastWords(log)).toMatch(/^fairlead: a seccomp filter of this process .* EPERM: allow/);
});

test('where programs of an earlier agent are attached auto fails, and they go on', async () => {
  const first = await node.startAgent();
  await first.stop();
  const { child, log } = startWith(forbidBpf('EPERM'));
  expect(await child.exited).not.toBe(0);
  expect(lastWords(log)).not.toBe('');
  expect(log.filter((line) => /(?:ip|nf)tables does/.test(line))).toEqual([]);
  expect(await once()).toMatchObject({ kind: 'answered', backend: 'web' });
});
