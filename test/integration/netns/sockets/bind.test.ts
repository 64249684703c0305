// SPDX-License-Identifier: Apache-2.0
// NodePorts are protected from processes of the node, which would bind them and wait in vain. Pods have ports of
// their own, and sockets that were bound before stay as they are.
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { run } from '../../../../src/sys/exec.ts';
import { type Agent, runCommand } from '../../../../tools/lab/agent.ts';
import { insideSandbox, type Sandbox, startServer } from '../../../../tools/lab/sandbox.ts';
import { service, TARGET_PORT } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';
import { AT_ONCE_MS, untilHolds } from '../../../support/until.ts';

const BIND = fileURLToPath(new URL('../fixture/bind.mjs', import.meta.url));
const NODE_IP = '10.1.1.1';
const NODE_IP6 = 'fd00:10:1::1';
const NODE_PORT = 30_080;

let node: Awaited<ReturnType<typeof startOneNode>>;
let agent: Agent;

beforeAll(async () => {
  node = await startOneNode(['web-1']);
  agent = await node.startAgent();
});
afterAll(() => node?.remove());

type Bind = readonly [family: string, address: string, port: number];

async function bind(sandbox: Sandbox, ...binds: readonly Bind[]): Promise<readonly string[]> {
  const words = binds.flat().map(String);
  const argv = insideSandbox(sandbox, [process.execPath, BIND, ...words]);
  const { stdout, stderr, code } = await run(argv[0]!, argv.slice(1));
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return JSON.parse(stdout) as string[];
}

/** A Service with the NodePort, or with none. */
function publish(nodePort: number | undefined, targetPort = TARGET_PORT): void {
  const spec = { n: 10, targetPort, ...(nodePort && { nodePort }) };
  node.manifests.put('web.yaml', service('web', spec, node.servers));
}

async function reached(port: number, address = NODE_IP): Promise<string> {
  const answer = await node.client().once({ protocol: 'TCP', address, port }, AT_ONCE_MS);
  return answer.kind === 'answered' ? answer.backend : answer.code;
}

const WILDCARD: Bind = ['tcp4', '0.0.0.0', NODE_PORT];

async function publishAndWait(): Promise<void> {
  publish(NODE_PORT);
  for (const address of [NODE_IP, NODE_IP6])
    await untilHolds(async () => expect(await reached(NODE_PORT, address)).toBe('web-1'));
}

test('a process of the node cannot bind the address and port of a NodePort, any other it can', async () => {
  await publishAndWait();
  const refused: readonly Bind[] = [
    WILDCARD,
    ['tcp6', '::', NODE_PORT],
    ['tcp4', NODE_IP, NODE_PORT],
    ['tcp6', NODE_IP6, NODE_PORT],
    ['tcp6', `::ffff:${NODE_IP}`, NODE_PORT],
    ['tcp4', '127.0.0.1', NODE_PORT],
  ];
  const bound: readonly Bind[] = [
    // NodePorts never answer on the loopback of IPv6.
    ['tcp6', '::1', NODE_PORT],
    ['udp4', '0.0.0.0', NODE_PORT],
    ['tcp4', '0.0.0.0', NODE_PORT + 1],
    ['tcp4', '0.0.0.0', 0],
    // The port of the ClusterIP, and the pod's.
    ['tcp4', '0.0.0.0', 80],
    ['tcp4', '0.0.0.0', 8080],
  ];
  expect(await bind(node.self, ...refused)).toEqual(refused.map(() => 'EADDRINUSE'));
  expect(await bind(node.self, ...bound)).toEqual(bound.map(() => 'bound'));
  const { reasons } = await node.status();
  expect(reasons).toMatchObject({ REFUSED_BIND: refused.length });
});

test('a pod binds what it wants', async () => {
  await publishAndWait();
  expect(await bind(node.sandboxes[0]!, WILDCARD, ['tcp6', '::', NODE_PORT])).toEqual([
    'bound',
    'bound',
  ]);
});

test('a process that has the port already keeps it, and gets it back with the end of the NodePort', async () => {
  publish(undefined);
  await untilHolds(async () => expect(await bind(node.self, WILDCARD)).toEqual(['bound']));
  const own = await startServer({ ...node.self, name: 'own' }, [NODE_PORT]);
  try {
    expect(await reached(NODE_PORT)).toBe('own');
    await publishAndWait();
    publish(undefined);
    await untilHolds(async () => expect(await reached(NODE_PORT)).toBe('own'));
  } finally {
    own.kill('SIGKILL');
    await own.exited;
  }
});

test('a process may bind the NodePort of a Service whose endpoints listen on the same number', async () => {
  await publishAndWait();
  const binds: readonly Bind[] = [
    WILDCARD,
    ['tcp6', '::', NODE_PORT],
    ['tcp4', NODE_IP, NODE_PORT],
  ];
  const all = async () => new Set(await bind(node.self, ...binds));
  publish(NODE_PORT, NODE_PORT);
  await untilHolds(async () => expect(await all()).toEqual(new Set(['bound'])));
  publish(NODE_PORT);
  await untilHolds(async () => expect(await all()).toEqual(new Set(['EADDRINUSE'])));
});

test('a process in a bypassed cgroup may bind it', async () => {
  await publishAndWait();
  const paths = ['--bpf-root', node.instance.bpfRoot];
  const bypass = (what: string) =>
    runCommand(node.instance, ['bypass', what, node.self.cgroup, ...paths]);
  expect(await bypass('add')).toMatchObject({ code: 0 });
  expect(await bind(node.self, WILDCARD)).toEqual(['bound']);
  expect(await bypass('remove')).toMatchObject({ code: 0 });
  expect(await bind(node.self, WILDCARD)).toEqual(['EADDRINUSE']);
});

test('the protection can be switched off, also of programs that are adopted', async () => {
  await publishAndWait();
  await agent.stop();
  expect(await bind(node.self, WILDCARD)).toEqual(['EADDRINUSE']);
  agent = await node.startAgent(['--nodeport-bind-protection=false']);
  expect(await bind(node.self, WILDCARD)).toEqual(['bound']);
  expect(await reached(NODE_PORT)).toBe('web-1');
});
