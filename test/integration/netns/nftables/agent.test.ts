// SPDX-License-Identifier: Apache-2.0
// The agent on nftables alone: real sockets of a pod and of the node reach Services; what others remove comes back, what
// they put into its table goes, and what they have elsewhere stays. Another engine takes over, and connections live.
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { type RunResult, run } from '../../../../src/sys/exec.ts';
import { type Agent, ownPaths, runCommand, startAgent } from '../../../../tools/lab/agent.ts';
import { insideSandbox } from '../../../../tools/lab/sandbox.ts';
import { startClient } from '../../../../tools/lab/traffic.ts';
import { service, target } from '../../../support/builders.ts';
import { routeServices } from '../../../support/iptables/routed-node.ts';
import { startOneNode } from '../../../support/node.ts';
import { until } from '../../../support/until.ts';

const web = { n: 10, nodePort: 30_080 };
const dns = { n: 53, port: 53, targetPort: 5353, protocol: 'UDP' } as const;
/** Reading the rules takes a twentieth of the time at most, on a busy machine more than a second. */
const RESTORED_MS = 60_000;
const PERIODS = ['--iptables-sync-period', '1s', '--iptables-min-sync-period', '100ms'];
const FLAGS = ['--engine', 'nftables', ...PERIODS];

let node: Awaited<ReturnType<typeof startOneNode>>;
let agent: Agent;

const inNode = (...argv: readonly string[]): Promise<RunResult> => {
  const [program = '', ...args] = insideSandbox(node.self, argv);
  return run(program, args);
};
const table = async (): Promise<string> =>
  (await inNode('nft', 'list', 'table', 'ip', 'fairlead')).stdout;
const drift = async (): Promise<number> => (await node.status()).sync.driftTotal;

beforeAll(async () => {
  node = await startOneNode(['web-1', 'web-2']);
  await routeServices(node);
});
afterAll(() => node?.remove());
beforeEach(async () => {
  node.manifests.put('web.yaml', service('web', web, node.servers));
  node.manifests.put('dns.yaml', service('dns', dns, node.servers));
  agent = await node.startAgent(FLAGS);
});
afterEach(async () => {
  await agent.stop();
});

test('ClusterIPs and NodePorts of both families answer a pod and the node', async () => {
  for (const kind of ['IPv4', 'IPv6'] as const) {
    for (const one of [web, dns]) {
      const { hits, failures } = await node.client().burst(target(one, kind), { connections: 60 });
      expect([kind, Object.keys(hits).sort(), failures]).toEqual([kind, ['web-1', 'web-2'], {}]);
    }
  }
  const self = await startClient(node.self);
  for (const [client, address] of [
    [node.client(), '10.1.1.1'],
    [node.client(), 'fd00:10:1::1'],
    [self, '10.96.0.10'],
  ] as const) {
    const port = address === '10.96.0.10' ? 80 : web.nodePort;
    const answer = await client.once({ protocol: 'TCP', address, port });
    expect([address, answer.kind]).toEqual([address, 'answered']);
  }
  const status = await node.status();
  expect(status).toMatchObject({ dataplanes: ['nftables'] });
  expect(status.limitations.map(({ code }) => code)).toContain('LOOPBACK');
});

test('a Service without endpoints is refused, and serves again when it has one', async () => {
  node.manifests.put('web.yaml', service('web', web, []));
  await node.programmed();
  const { hits, failures } = await node.client().burst(target(web), { connections: 3 });
  expect({ hits, failures }).toEqual({ hits: {}, failures: { ECONNREFUSED: 3 } });
  node.manifests.put('web.yaml', service('web', web, node.pods('web-2')));
  await node.programmed();
  expect(await node.client().once(target(web))).toMatchObject({ kind: 'answered' });
});

test('the views show what is in the kernel', async () => {
  const argv = ['services', '-o', 'json', '--run-dir', node.instance.runDir];
  const { stdout } = await runCommand(node.instance, argv);
  const rows = (JSON.parse(stdout) as { items: readonly Record<string, unknown>[] }).items;
  expect(rows.map(({ frontend, kernelState }) => [frontend, kernelState])).toEqual(
    expect.arrayContaining([
      ['10.96.0.10:80/TCP', 'ok'],
      ['*:30080/TCP', 'ok'],
      ['10.96.0.53:53/UDP', 'ok'],
    ]),
  );
  expect(rows.filter(({ kernelState }) => kernelState !== 'ok')).toEqual([]);
});

test('a restart changes nothing', async () => {
  // Other than the Service by which it is seen that everything is programmed.
  const rules = async (): Promise<readonly string[]> =>
    (await table())
      .split('\n')
      .filter((line) => !line.includes('sentinel'))
      .map((line) => line.replace(/(,| \})$/, ''));
  const before = await rules();
  await agent.stop();
  agent = await node.startAgent(FLAGS);
  await node.programmed();
  expect(await rules()).toEqual(before);
});

test.each(['flush ruleset', 'delete table ip fairlead; delete table ip6 fairlead'])(
  'nft %s under traffic: it is mended, log and status say so, and a connection lives',
  async (command) => {
    const stream = await node.client().open(target(web));
    const load = await node.client().startLoad(target(web), { concurrency: 2, timeoutMs: 500 });
    const before = await table();
    expect(await inNode('nft', command)).toMatchObject({ code: 0, stderr: '' });
    await until(async () => (await table()) === before, {
      what: 'the table again',
      timeoutMs: RESTORED_MS,
    });
    expect(await stream.talk('x')).toMatchObject({ kind: 'answered' });
    expect(await node.client().once(target(web))).toMatchObject({ kind: 'answered' });
    await until(async () => (await drift()) > 0, 'the report');
    const line = agent.log.find((one) => one.includes('audit found drift, repaired')) ?? '';
    expect(line).toMatch(/IPv[46] (chain|set|map) \S+: missing/);
    await load.stop();
    await stream.close();
  },
);

test.each([
  ['a rule', 'insert rule ip fairlead services ip daddr 10.96.0.10 drop'],
  ['an element', 'add element ip fairlead no-endpoint-services { 10.96.0.99 . tcp . 1 : drop }'],
  ['a chain', 'add chain ip fairlead theirs { type filter hook input priority 5 ; }'],
  ['a counter', 'add counter ip fairlead theirs'],
])(
  '%s that somebody else puts into the table goes, and their own table stays',
  async (_, command) => {
    const before = await table();
    expect(await inNode('nft', 'add table ip theirs')).toMatchObject({ code: 0 });
    expect(await inNode('nft', command)).toMatchObject({ code: 0, stderr: '' });
    await until(async () => (await table()) === before, {
      what: 'the table as before',
      timeoutMs: RESTORED_MS,
    });
    expect((await inNode('nft', 'list', 'tables')).stdout).toContain('table ip theirs');
  },
);

test('--engine auto, without eBPF and iptables: nftables serves, and the status says why', async () => {
  await agent.stop();
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-nft-alone-'));
  try {
    const { stdout } = await run('sh', ['-c', 'command -v nft']);
    symlinkSync(stdout.trim(), join(folder, 'nft'));
    const wrapper = ['setpriv', '--bounding-set=-bpf,-perfmon,-sys_admin', '/usr/bin/env'];
    const instance = { ...node.instance, wrapper: [...wrapper, `PATH=${folder}`] };
    agent = await startAgent(instance, PERIODS);
    await node.programmed();
    expect(await node.client().once(target(web))).toMatchObject({ kind: 'answered' });
    expect((await node.status()).fallback).toMatchObject({
      what: 'sockets and packets',
      by: 'nftables',
      reason: expect.stringMatching(/CAP_BPF/),
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test.each(['bpf', 'iptables'])(
  'the engine %s takes over, and back; a connection lives',
  async (engine) => {
    const stream = await node.client().open(target(web));
    const alive = async (): Promise<boolean> => (await stream.talk('x')).kind === 'answered';
    expect(await alive()).toBe(true);
    await agent.stop();
    agent = await node.startAgent(['--engine', engine, ...PERIODS]);
    await node.programmed();
    await until(async () => !(await table()).includes('chain services'), {
      what: 'the table that serves no more',
      timeoutMs: RESTORED_MS,
    });
    expect(await alive()).toBe(true);
    expect(await node.client().once(target(web))).toMatchObject({ kind: 'answered' });
    await agent.stop();
    agent = await node.startAgent(FLAGS);
    await node.programmed();
    expect(await alive()).toBe(true);
    expect(await node.client().once(target(web))).toMatchObject({ kind: 'answered' });
  },
);

test('cleanup removes the table', async () => {
  await agent.stop();
  const { code, stdout } = await runCommand(node.instance, ['cleanup', ...ownPaths(node.instance)]);
  expect([code, stdout]).toEqual([0, expect.stringContaining('chain')]);
  expect(await table()).toBe('');
});
