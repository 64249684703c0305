// SPDX-License-Identifier: Apache-2.0
// The agent with sockets of its own. Without any privilege Services are at ports of 127.0.0.1; with CAP_NET_ADMIN at their own
// addresses, which a stop removes, and after a crash the next agent or `cleanup`.
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { run } from '../../../../src/sys/exec.ts';
import { type Instance, runCommand, startAgent } from '../../../../tools/lab/agent.ts';
import { openManifests } from '../../../../tools/lab/manifests.ts';
import { insideSandbox, startServer } from '../../../../tools/lab/sandbox.ts';
import { type Client, startClient } from '../../../../tools/lab/traffic.ts';
import { service, slices, svc, target } from '../../../support/builders.ts';
import { getInSandbox } from '../../../support/http/get.ts';
import { startOneNode } from '../../../support/node.ts';
import { untilHolds } from '../../../support/until.ts';

const NOBODY = 65_534;
const UNPRIVILEGED = `setpriv --reuid ${NOBODY} --regid ${NOBODY} --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs`;
const FLAGS = ['--engine', 'userspace', '--manifests-removal-delay', '0s'];
const CHECK_PORT = 32_100;
const dns = { n: 53, port: 53, targetPort: 5353, protocol: 'UDP' } as const;

let node: Awaited<ReturnType<typeof startOneNode>>;
let home: string;
let instance: Instance;
let self: Client;

interface Row {
  readonly frontend: string;
  readonly reachedAt?: string;
  readonly kernelState: string;
}

beforeAll(async () => {
  node = await startOneNode(['web-1', 'web-2']);
  home = mkdtempSync(join(tmpdir(), 'fairlead-userspace-'));
  chmodSync(home, 0o755);
  for (const name of ['manifests', 'run']) mkdirSync(join(home, name));
  chownSync(join(home, 'run'), NOBODY, NOBODY);
  const manifests = openManifests(join(home, 'manifests'));
  instance = { ...node.instance, manifests, runDir: join(home, 'run') };
  self = await startClient(node.self);
});
afterAll(async () => {
  await self?.stop();
  node?.remove();
  if (home !== undefined) rmSync(home, { recursive: true });
});

async function rows(): Promise<readonly Row[]> {
  const { stdout } = await runCommand(instance, [
    ...['services', '-o', 'json', '--run-dir', instance.runDir],
  ]);
  return (JSON.parse(stdout) as { items: readonly Row[] }).items;
}

async function locationOf(frontend: string, protocol: 'TCP' | 'UDP') {
  const reachedAt = (await rows()).find((row) => row.frontend === frontend)?.reachedAt ?? '';
  const [address = '', port] = reachedAt.split(':');
  return { protocol, address, port: Number(port) };
}

async function onLoopback(): Promise<string> {
  const [program = '', ...args] = insideSandbox(node.self, ['ip', 'address', 'show', 'lo']);
  return (await run(program, args)).stdout;
}

test('without a capability: the port map serves TCP and UDP while endpoints change', async () => {
  instance.manifests.put('web.yaml', service('web', { n: 10 }, node.servers));
  instance.manifests.put('dns.yaml', service('dns', dns, node.servers));
  const agent = await startAgent({ ...instance, wrapper: UNPRIVILEGED.split(' ') }, FLAGS);
  try {
    const web = await locationOf('10.96.0.10:80/TCP', 'TCP');
    const names = await locationOf('10.96.0.53:53/UDP', 'UDP');
    expect([web.address, names.address]).toEqual(['127.0.0.1', '127.0.0.1']);
    for (const location of [web, names]) {
      const { hits, failures } = await self.burst(location, { connections: 60 });
      expect([Object.keys(hits).sort(), failures]).toEqual([['web-1', 'web-2'], {}]);
    }
    const old = await self.open(web);
    const load = await self.startLoad(web, { concurrency: 4, pauseMs: 10 });
    instance.manifests.put('web.yaml', service('web', { n: 10 }, node.pods('web-2')));
    await untilHolds(async () => {
      const { hits } = await self.burst(web, { connections: 20 });
      expect(hits).toEqual({ 'web-2': 20 });
    });
    expect((await load.stop()).failures).toEqual([]);
    expect(await old.talk('still')).toMatchObject({ kind: 'answered' });
    await old.close();
    expect(await locationOf('10.96.0.10:80/TCP', 'TCP')).toEqual(web);
    expect(await onLoopback()).not.toContain('10.96.0.10');
    const untrue = /not removed yet|stale conntrack/;
    expect(agent.log.filter((line) => untrue.test(line))).toEqual([]);
  } finally {
    await agent.stop();
  }
});

test.each([
  ['and without a capability', UNPRIVILEGED.split(' ')],
  ['with all capabilities', []],
])(
  'without the addon %s: the port map serves by streams, and status says so',
  async (_as, wrapper) => {
    instance.manifests.put('web.yaml', service('web', { n: 10 }, node.servers));
    instance.manifests.put('dns.yaml', service('dns', dns, node.servers));
    const withoutAddon = ['env', 'FAIRLEAD_ADDON=/nonexistent/fairlead.node', ...wrapper];
    const agent = await startAgent({ ...instance, wrapper: withoutAddon }, FLAGS);
    try {
      for (const location of [
        await locationOf('10.96.0.10:80/TCP', 'TCP'),
        await locationOf('10.96.0.53:53/UDP', 'UDP'),
      ]) {
        const { hits, failures } = await self.burst(location, { connections: 60 });
        expect([Object.keys(hits).sort(), failures]).toEqual([['web-1', 'web-2'], {}]);
      }
      const { stdout } = await runCommand(instance, ['status', '--run-dir', instance.runDir]);
      expect(stdout).toContain('bytes of TCP connections pass through JavaScript');
      expect(agent.log.filter((line) => line.includes('"level":"error"'))).toEqual([]);
    } finally {
      await agent.stop();
    }
  },
);

test('a healthCheckNodePort answers by the endpoints of this node', async () => {
  const web = svc('web', { n: 10, nodePort: 30_080 });
  const policy = { type: 'LoadBalancer', externalTrafficPolicy: 'Local' };
  const spec = { ...(web['spec'] as object), ...policy, healthCheckNodePort: CHECK_PORT };
  const far = { name: 'far', nodeName: 'n2', ipv4: '10.1.2.77', ipv6: 'fd00:10:1:2::77' };
  const putPods = (pods: Parameters<typeof service>[2]) =>
    instance.manifests.put('web.yaml', [
      { ...web, spec },
      ...slices(
        'web',
        pods.map((pod) => ({ pod })),
      ),
    ]);
  const answer = async () => {
    const { status, body } = await getInSandbox(node.self, CHECK_PORT, '/');
    return [status, (JSON.parse(body) as { localEndpoints: number }).localEndpoints];
  };
  putPods([...node.servers, far]);
  const agent = await startAgent({ ...instance, wrapper: UNPRIVILEGED.split(' ') }, FLAGS);
  try {
    await untilHolds(async () => expect(await answer()).toEqual([200, 2]));
    putPods([far]);
    await untilHolds(async () => expect(await answer()).toEqual([503, 0]));
    putPods([...node.pods('web-1'), far]);
    await untilHolds(async () => expect(await answer()).toEqual([200, 1]));
  } finally {
    await agent.stop();
  }
});

test('a NodePort that another process has is reported, other frontends are served', async () => {
  const nodePort = 30_080;
  const thief = await startServer(node.self, [nodePort]);
  instance.manifests.put('web.yaml', service('web', { n: 10, nodePort }, node.servers));
  const agent = await startAgent({ ...instance, wrapper: UNPRIVILEGED.split(' ') }, FLAGS).catch(
    (error: unknown) => ({ log: [String(error)], stop: async () => 0 }),
  );
  try {
    await untilHolds(() =>
      expect(agent.log.join('\n')).toMatch(/cannot listen at .*:30080\/TCP: another process/),
    );
  } finally {
    await agent.stop();
    thief.kill('SIGKILL');
    await thief.exited;
  }
});

test('with CAP_NET_ADMIN Services are at their addresses, which do not outlive agents', async () => {
  instance.manifests.put('web.yaml', service('web', { n: 10 }, node.servers));
  const first = await startAgent(instance, FLAGS);
  expect((await self.burst(target({ n: 10 }), { connections: 10 })).failures).toEqual({});
  await first.kill();
  expect(await onLoopback()).toContain('10.96.0.10/32');
  const second = await startAgent(instance, FLAGS);
  expect((await self.burst(target({ n: 10 }), { connections: 10 })).failures).toEqual({});
  await second.stop();
  expect(await onLoopback()).not.toContain('10.96.0.');
  const third = await startAgent(instance, FLAGS);
  await third.kill();
  const { code, stdout } = await runCommand(instance, [
    ...['cleanup', '--bpf-root', instance.bpfRoot, '--run-dir', instance.runDir],
  ]);
  expect([code, stdout]).toEqual([0, expect.stringContaining('address 10.96.0.10')]);
  expect(await onLoopback()).not.toContain('10.96.0.');
});

const inSandbox = async (...command: readonly string[]): Promise<string> => {
  const [program = '', ...args] = insideSandbox(node.self, command);
  return (await run(program, args)).stdout;
};

/** By engine: whether the node has what it has programmed. */
const PROGRAMMED = {
  bpf: async () => existsSync(instance.bpfRoot) && readdirSync(instance.bpfRoot).length > 0,
  iptables: async () => (await inSandbox('iptables-save', '-t', 'nat')).includes('10.96.0.10'),
  nftables: async () => (await inSandbox('nft', 'list', 'tables')).includes('fairlead'),
} as const;

test.each(Object.keys(PROGRAMMED) as (keyof typeof PROGRAMMED)[])(
  'it takes over from %s, and that from it',
  async (engine) => {
    const isProgrammed = PROGRAMMED[engine];
    const own = ['--engine', engine, '--manifests-removal-delay', '0s'];
    instance.manifests.put('web.yaml', service('web', { n: 10 }, node.servers));
    const before = await startAgent(instance, own);
    await before.kill();
    expect(await isProgrammed()).toBe(true);
    const sockets = await startAgent(instance, FLAGS);
    await untilHolds(async () => expect(await isProgrammed()).toBe(false));
    expect((await self.burst(target({ n: 10 }), { connections: 10 })).failures).toEqual({});
    await sockets.kill();
    expect(await onLoopback()).toContain('10.96.0.10/32');
    const again = await startAgent(instance, own);
    try {
      expect(await isProgrammed()).toBe(true);
      // Once it has programmed all Services.
      await untilHolds(async () => expect(await onLoopback()).not.toContain('10.96.0.'));
    } finally {
      await again.stop();
      await runCommand(instance, [
        ...['cleanup', '--bpf-root', instance.bpfRoot, '--run-dir', instance.runDir],
      ]);
    }
  },
);
