// SPDX-License-Identifier: Apache-2.0
// The settings of connection tracking in a node's network namespace, with the kernel's own /proc; and what they are
// for: how long a half-closed connection between two nodes is remembered.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Child, run, start } from '../../../../src/sys/exec.ts';
import { insideNamespace } from '../../../../src/sys/netns.ts';
import { runCommand } from '../../../../tools/lab/agent.ts';
import { insideSandbox } from '../../../../tools/lab/sandbox.ts';
import { service, target } from '../../../support/builders.ts';
import { startNodes, type TestNode, type TestNodes } from '../../../support/node.ts';
import { until } from '../../../support/until.ts';

const NETFILTER = '/proc/sys/net/netfilter';
const WEB = { n: 10 } as const;

let nodes: TestNodes;
let n1: TestNode;
let n2: TestNode;
const children: Child[] = [];

async function inNode(...argv: readonly string[]): Promise<string> {
  const [program = '', ...args] = insideNamespace(n1.instance.sandbox.namespace, argv);
  const { code, stdout, stderr } = await run(program, args);
  if (code !== 0) throw new Error(`${argv.join(' ')}: ${stderr}`);
  return stdout.trim();
}
const setting = async (name: string): Promise<number> =>
  Number(await inNode('cat', `${NETFILTER}/nf_conntrack_${name}`));

/** The result of each setting, by its name. */
async function init(...flags: readonly string[]): Promise<Record<string, Record<string, unknown>>> {
  const { stderr } = await runCommand(n1.instance, [
    ...['run', '--init-only', '--manifests', n1.manifests.path, ...flags],
  ]);
  const lines = stderr.split('\n').filter((line) => line.includes('kernel setting'));
  const results = lines.map((line) => JSON.parse(line) as { path: string });
  return Object.fromEntries(
    results.map((result) => [result.path.split('/').at(-1)?.replace('nf_conntrack_', ''), result]),
  );
}

beforeAll(async () => {
  nodes = await startNodes([
    { name: 'n1', servers: [], clients: ['client'] },
    { name: 'n2', servers: ['b'], clients: [] },
  ]);
  [n1, n2] = nodes.nodes as [TestNode, TestNode];
});
afterAll(async () => {
  for (const child of children) child.kill('SIGKILL');
  await Promise.all(children.map(({ exited }) => exited));
  nodes?.remove();
});

test('by default the timeouts of established and half-closed connections are written', async () => {
  await inNode('sysctl', '-qw', 'net.netfilter.nf_conntrack_tcp_timeout_close_wait=61');
  const results = await init('--conntrack-max-per-core=0');
  expect(results['tcp_timeout_close_wait']).toMatchObject({ outcome: 'written', was: 61 });
  expect(await setting('tcp_timeout_close_wait')).toBe(3_600);
  expect(await setting('tcp_timeout_established')).toBe(86_400);
  const untouched = ['max', 'hashsize', 'tcp_be_liberal', 'udp_timeout', 'udp_timeout_stream'];
  for (const name of untouched) expect(results[name]).toBeUndefined();
});

test('what is configured is written, also lower values; 0 leaves the kernel’s', async () => {
  await init(
    ...['--conntrack-max-per-core=0', '--conntrack-tcp-timeout-established=2h'],
    ...['--conntrack-tcp-timeout-close-wait=0', '--conntrack-tcp-be-liberal'],
    ...['--conntrack-udp-timeout=20s', '--conntrack-udp-timeout-stream=90s'],
  );
  const names = ['tcp_timeout_established', 'tcp_be_liberal', 'udp_timeout', 'udp_timeout_stream'];
  expect(await Promise.all(names.map(setting))).toEqual([7_200, 1, 20, 90]);
  expect(await setting('tcp_timeout_close_wait')).toBe(3_600);
  await inNode('sysctl', '-qw', 'net.netfilter.nf_conntrack_tcp_be_liberal=0');
});

test('the size of the table belongs to the machine: elsewhere it is named with what to do', async () => {
  const before = await setting('max');
  const wanted = before + 1_000;
  const { max } = await init('--conntrack-max-per-core=1', `--conntrack-min=${wanted}`);
  expect(max).toMatchObject({ level: 'warn', outcome: 'failed', value: wanted, was: before });
  expect(max?.['reason']).toMatch(/--init-only/);
  expect(await setting('max')).toBe(before);
});

test('a larger table of connections stays as it is', async () => {
  const before = await setting('max');
  const { max } = await init('--conntrack-max-per-core=1', `--conntrack-min=${before - 1}`);
  expect(max).toMatchObject({ level: 'info', outcome: 'kept', value: before - 1, was: before });
});

/** Of the client's node: `tcp 6 3599 CLOSE_WAIT …`. */
async function halfClosed(): Promise<number | undefined> {
  const table = await inNode('cat', '/proc/net/nf_conntrack');
  const [backend] = n2.pods('b');
  const line = table.split('\n').find((text) => text.includes(`dst=${backend?.ipv4} `));
  const seconds = /tcp\s+6 (\d+) CLOSE_WAIT/.exec(line ?? '')?.[1];
  return seconds === undefined ? undefined : Number(seconds);
}

test('a half-closed connection to another node is remembered for an hour', async () => {
  await init('--conntrack-max-per-core=0');
  // As a kubelet makes it: it is what keeps connection tracking active.
  await inNode(
    ...['iptables', '-w', '-A', 'INPUT', '!', '-s', '127.0.0.0/8', '-d', '127.0.0.0/8'],
    ...['-m', 'conntrack', '!', '--ctstate', 'RELATED,ESTABLISHED,DNAT', '-j', 'DROP'],
  );
  const [backend] = n2.pods('b');
  n1.manifests.put('web.yaml', service('web', { ...WEB, targetPort: 9999 }, [backend!]));
  const agent = await n1.startAgent();
  // A server that does not close its side when the client has closed its own.
  const server = `require('net').createServer({ allowHalfOpen: true }, (socket) => socket.resume()).listen(9999, () => console.log('ready'))`;
  await runNode(n2.servers[0]!, server, 'ready');
  const { address, port } = target(WEB);
  const dial = `const socket = require('net').connect({ port: ${port}, host: '${address}', allowHalfOpen: true }, () => socket.end(() => console.log('closed')))`;
  await runNode(n1.sandboxes[0]!, dial, 'closed');
  const seconds = await until(halfClosed, 'an entry in CLOSE_WAIT');
  expect(Math.abs(seconds - 3_600)).toBeLessThanOrEqual(60);
  await agent.stop();
});

async function runNode(
  sandbox: Parameters<typeof insideSandbox>[0],
  code: string,
  wanted: string,
): Promise<void> {
  const lines: string[] = [];
  const [program = '', ...args] = insideSandbox(sandbox, [process.execPath, '-e', code]);
  children.push(start(program, args, { onStdoutLine: (line) => lines.push(line) }));
  await until(() => lines.includes(wanted), `${wanted} of ${sandbox.name}`);
}
