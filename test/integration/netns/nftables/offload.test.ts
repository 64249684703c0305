// SPDX-License-Identifier: Apache-2.0
// --nftables-offload: where the kernel has flowtables, packets of an established connection of a Service pass by every chain of
// forward. Where it has none, Services are served as without it, and the status says why. Virtual machines run it, too: its tests share an agent.
import { existsSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type RunResult, run } from '../../../../src/sys/exec.ts';
import { type Agent, ownPaths, runCommand } from '../../../../tools/lab/agent.ts';
import { insideSandbox, type Sandbox } from '../../../../tools/lab/sandbox.ts';
import { SERVICE_RANGES } from '../../../../tools/lab/wiring.ts';
import { service, target } from '../../../support/builders.ts';
import { startNodes, type TestNode, type TestNodes } from '../../../support/node.ts';
import { until } from '../../../support/until.ts';

const web = { n: 10 };
const FLAGS = ['--engine', 'nftables', '--iptables-sync-period', '1s'];
const OFFLOADING = [...FLAGS, '--nftables-offload', 'auto,!out*'];
const FAMILIES = ['IPv4', 'IPv6'] as const;
/** What init.c of a virtual machine has loaded, or the kernel of this one has. */
const hasFlowtable = existsSync('/sys/module/nft_flow_offload');

let nodes: TestNodes;
let here: TestNode;
let there: TestNode;
let agent: Agent | undefined;

const inside = (sandbox: Sandbox, ...argv: readonly string[]): Promise<RunResult> => {
  const [program = '', ...args] = insideSandbox(sandbox, argv);
  return run(program, args);
};
const node = (...argv: readonly string[]): Promise<RunResult> => inside(here.self, ...argv);

const WITNESS = `table inet witness {
  chain forward { type filter hook forward priority 0; tcp dport 8080 counter; }
}`;

/** Packets to the servers that the chains of forward have seen. */
async function seen(): Promise<number> {
  const { stdout } = await node('nft', 'list', 'table', 'inet', 'witness');
  return Number(/packets (\d+)/.exec(stdout)?.[1]);
}

const flowtable = async (): Promise<string> =>
  (await node('nft', 'list', 'table', 'inet', 'fairlead-offload')).stdout;
const hasDevice = async (name: string): Promise<boolean> =>
  new RegExp(`devices = \\{[^}]*\\b${name}\\b`).test(await flowtable());
const offloaded = async (): Promise<string> =>
  (await node('conntrack', '-L', '-p', 'tcp')).stdout
    .split('\n')
    .filter((line) => line.includes('[OFFLOAD]'))
    .join('\n');

beforeAll(async () => {
  nodes = await startNodes([
    { name: 'n1', servers: [], clients: ['client'] },
    { name: 'n2', servers: ['web-1', 'web-2'], clients: [] },
  ]);
  const [first, second] = nodes.nodes;
  if (first === undefined || second === undefined) throw new Error('no nodes');
  [here, there] = [first, second];
  for (const range of SERVICE_RANGES)
    await inside(here.client().sandbox, 'ip', 'route', 'del', 'unreachable', range);
  await node('nft', WITNESS);
  await start(OFFLOADING);
});
afterAll(async () => {
  await agent?.stop();
  await cleanup();
  nodes?.remove();
});

const cleanup = (): Promise<RunResult> =>
  runCommand(here.instance, ['cleanup', ...ownPaths(here.instance)]);

async function serveBy(...names: readonly string[]): Promise<void> {
  here.manifests.put('web.yaml', service('web', web, there.pods(...names)));
  await here.programmed();
}

async function start(flags: readonly string[]): Promise<void> {
  here.manifests.put('web.yaml', service('web', web, there.servers));
  agent = await here.startAgent(flags);
  await here.programmed();
}

const codes = async (): Promise<readonly string[]> =>
  (await here.status()).limitations.map(({ code }) => code);

test.skipIf(hasFlowtable)(
  'a kernel without flowtables serves, and the status says why',
  async () => {
    for (const family of FAMILIES)
      expect(await here.client().once(target(web, family))).toMatchObject({ kind: 'answered' });
    const found = (await here.status()).limitations.find(({ code }) => code === 'NO_OFFLOAD');
    expect(found?.reason).toMatch(/flowtable: nft failed at .*; the kernel may lack a module/);
    expect(agent?.log.filter((line) => line.includes('not offloaded'))).toHaveLength(1);
  },
);

test.runIf(hasFlowtable).each(FAMILIES)(
  '%s: the chains of forward see no packet of an established connection',
  async (family) => {
    await until(() => hasDevice('br0'), 'the flowtable');
    expect(await codes()).toContain('OFFLOAD');
    const open = await here.client().open(target(web, family));
    expect(await open.talk('first')).toMatchObject({ kind: 'answered' });
    await until(async () => (await seen()) > 0, 'the first packets');
    const before = await seen();
    for (let n = 0; n < 40; n++)
      expect(await open.talk(`${n}`)).toMatchObject({ kind: 'answered' });
    expect((await seen()) - before).toBeLessThan(5);
    if (family === 'IPv4') expect(await offloaded()).toContain('dport=80');
    await open.close();
  },
);

test.runIf(hasFlowtable)(
  'an endpoint that goes gets no new connection, and keeps the one that is established',
  async () => {
    await serveBy('web-1');
    const open = await here.client().open(target(web));
    expect(await open.talk('before')).toMatchObject({ kind: 'answered' });
    await serveBy('web-2');
    const { hits } = await here.client().burst(target(web), { connections: 10 });
    expect(Object.keys(hits)).toEqual(['web-2']);
    expect(await open.talk('after')).toMatchObject({ kind: 'answered' });
    await open.close();
  },
);

test.runIf(hasFlowtable)('devices that come, go, and come back are in it', async () => {
  await until(() => hasDevice('uplink'), 'the flowtable');
  for (const _ of ['comes', 'comes back']) {
    await node('ip', 'link', 'add', 'extra', 'type', 'veth', 'peer', 'name', 'out-extra');
    await until(() => hasDevice('extra'), 'the device');
    expect(await flowtable()).not.toContain('out-extra');
    await node('ip', 'link', 'del', 'extra');
    await until(async () => !(await hasDevice('extra')), 'no device');
  }
  expect(await hasDevice('uplink')).toBe(true);
  expect(agent?.log.filter((line) => line.includes('sync failed'))).toEqual([]);
});

test.runIf(hasFlowtable)(
  'what somebody removes comes back; it stays without an agent; cleanup removes it',
  async () => {
    await node('nft', 'delete', 'table', 'inet', 'fairlead-offload');
    await until(() => hasDevice('br0'), 'the flowtable again');
    await agent?.stop();
    expect(await hasDevice('br0')).toBe(true);
    await cleanup();
    expect(await flowtable()).toBe('');
  },
);

test('without the flag what an earlier agent has left is removed', async () => {
  await agent?.stop();
  await node('nft', 'add', 'table', 'inet', 'fairlead-offload');
  expect(await flowtable()).not.toBe('');
  await start(FLAGS);
  expect(await flowtable()).toBe('');
  expect(await codes()).not.toEqual(expect.arrayContaining([expect.stringMatching('OFFLOAD')]));
});
