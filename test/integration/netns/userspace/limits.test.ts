// SPDX-License-Identifier: Apache-2.0
// The agent at the limits of its process and of its node, by both relays: with 256 files, and with few local ports. What is open goes
// on, more is refused, the log says which limit it is, the agent answers and follows changes, and recovers.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { run } from '../../../../src/sys/exec.ts';
import { type Instance, runCommand, startAgent } from '../../../../tools/lab/agent.ts';
import { insideSandbox } from '../../../../tools/lab/sandbox.ts';
import { type Client, startClient } from '../../../../tools/lab/traffic.ts';
import { service, target } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';
import { untilHolds } from '../../../support/until.ts';

const FILES = 256;
const FLAGS = ['--engine', 'userspace', '--manifests-removal-delay', '0s'];
const RELAYS = [
  ['the thread of the addon', []],
  ['streams of Node', ['env', 'FAIRLEAD_ADDON=/nonexistent/fairlead.node']],
] as const;
const dns = { n: 53, port: 53, targetPort: 5353, protocol: 'UDP' } as const;

let node: Awaited<ReturnType<typeof startOneNode>>;
let instance: Instance;
let self: Client;

beforeAll(async () => {
  node = await startOneNode(['web-1']);
  instance = node.instance;
  self = await startClient(node.self);
});
afterAll(async () => {
  await self?.stop();
  node?.remove();
});

const command = (...args: readonly string[]) =>
  runCommand(instance, [...args, '--run-dir', instance.runDir]);

async function placeOf(n: number, protocol: 'TCP' | 'UDP') {
  const { stdout } = await command('services', '-o', 'json');
  const { items } = JSON.parse(stdout) as { items: { frontend: string; reachedAt?: string }[] };
  const { address, port } = target({ n, protocol });
  const row = items.find(({ frontend }) => frontend.startsWith(`${address}:`));
  const [host = address, mapped] = row?.reachedAt?.split(':') ?? [];
  return { protocol, address: host, port: Number(mapped ?? (protocol === 'UDP' ? 53 : port)) };
}

const put = (n: number): unknown =>
  node.manifests.put(`web-${n}.yaml`, service(`web-${n}`, { n }, node.servers));

test.each(RELAYS)('%s, 256 files', async (_name, relay) => {
  put(10);
  node.manifests.put('dns.yaml', service('dns', dns, node.servers));
  const wrapper = ['prlimit', `--nofile=${FILES}`, ...relay];
  const agent = await startAgent({ ...instance, wrapper }, FLAGS);
  try {
    const web = await placeOf(10, 'TCP');
    const names = await placeOf(53, 'UDP');
    const first = await self.open(web);
    const all = await Promise.all(Array.from({ length: FILES }, () => self.open(web)));
    const refused = all.filter(({ answer }) => answer?.kind === 'failed');
    // Each takes two files.
    expect(refused.length).toBeGreaterThan(FILES / 2);
    expect(refused.length).toBeLessThan(FILES - 64);
    expect(agent.log.join('\n')).toMatch(
      /"refused":\d+,"limit":256,"advice":"raise the limit of open files \(ulimit -n.*"msg":"connections are refused: too many files are open"/,
    );
    // The agent goes on: its connections, its admin socket, and its watch.
    expect(await first.talk('still')).toMatchObject({ kind: 'answered' });
    expect((await command('status')).stdout).toMatch(/Health: +in sync/);
    put(11);
    await untilHolds(async () =>
      expect((await command('status')).stdout).toMatch(
        /Failed: +default\/web-11 .*too many open files; raise its limit/,
      ),
    );
    await Promise.all(all.map((socket) => socket.close()));
    await untilHolds(async () =>
      expect((await command('status')).stdout).toMatch(/Health: +in sync/),
    );
    for (const location of [web, await placeOf(11, 'TCP')]) {
      const { hits, failures } = await self.burst(location, { connections: 20 });
      expect([hits, failures]).toEqual([{ 'web-1': 20 }, {}]);
    }
    // Of one Service's clients the oldest give their files to new ones.
    const { failures } = await self.burst(names, { connections: 2 * FILES });
    expect(failures).toEqual({});
    expect((await command('status')).stdout).toMatch(/Health: +in sync/);
    expect(agent.log.filter((line) => line.includes('"level":"error"'))).toEqual([]);
  } finally {
    await agent.stop();
    node.manifests.remove('web-11.yaml');
  }
});

test.each(RELAYS)('%s, two local ports', async (_name, relay) => {
  put(10);
  put(12);
  const setting = 'net.ipv4.ip_local_port_range';
  const sysctl = async (...args: readonly string[]): Promise<string> => {
    const [program = '', ...rest] = insideSandbox(node.self, ['sysctl', ...args]);
    return (await run(program, rest)).stdout.trim();
  };
  const before = await sysctl('-n', setting);
  const agent = await startAgent({ ...instance, wrapper: [...relay] }, FLAGS);
  try {
    const [a, b] = [await placeOf(10, 'TCP'), await placeOf(12, 'TCP')];
    // The client has two to each Service, the agent two to the backend of both.
    await sysctl('-w', `${setting}=40000 40001`);
    const held = [await self.open(a), await self.open(a)];
    expect(held.map(({ answer }) => answer?.kind)).toEqual(['answered', 'answered']);
    expect(await self.once(b)).toMatchObject({ kind: 'failed', code: 'ECONNRESET' });
    await untilHolds(() =>
      expect(agent.log.join('\n')).toMatch(
        /"advice":"widen net.ipv4.ip_local_port_range".*"msg":"connections are refused: no local port is free for a backend"/,
      ),
    );
    expect(await held[0]?.talk('still')).toMatchObject({ kind: 'answered' });
    await sysctl('-w', `${setting}=${before}`);
    expect(await self.once(b)).toMatchObject({ kind: 'answered' });
  } finally {
    await sysctl('-w', `${setting}=${before}`);
    await agent.stop();
  }
});
