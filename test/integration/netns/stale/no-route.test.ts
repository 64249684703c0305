// SPDX-License-Identifier: Apache-2.0
// UDP sockets of the node whose backend is gone, while no route leads to the next one: connect() runs the hook, which writes a
// record, and fails then. They must not stay connected to the former backend unnoticed.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { run } from '../../../../src/sys/exec.ts';
import { insideNamespace } from '../../../../src/sys/netns.ts';
import type { Agent } from '../../../../tools/lab/agent.ts';
import { startOneNode } from '../../../support/node.ts';
import { untilHolds } from '../../../support/until.ts';
import { errorsOf, heldPrograms, objectsWithout, RECOVERY_MS, withObjects } from './support.ts';
import { udpServices, words } from './udp-services.ts';

let node: Awaited<ReturnType<typeof startOneNode>>;
let agent: Agent | undefined;
const held = heldPrograms(() => node);
const { put, answeredBy } = udpServices(() => node);

beforeAll(async () => {
  node = await startOneNode(['a', 'b']);
  put('a');
});
afterEach(() => agent?.kill());
afterAll(() => node?.remove());

async function route(how: 'add' | 'del', address: string): Promise<void> {
  const argv = insideNamespace(node.instance.sandbox.namespace, [
    ...['ip', 'route', how, 'unreachable', `${address}/32`],
  ]);
  const { code, stderr } = await run(argv[0]!, argv.slice(1));
  expect([code, stderr]).toEqual([0, '']);
}

test.each([
  ['bpf_sock_destroy', []],
  ['SOCK_DESTROY', ['destroy.bpf.o']],
])('%s: they are destroyed, as those that cannot be connected again', async (_, missing) => {
  put('a');
  agent = await withObjects(objectsWithout(node, ...missing), () => node.startAgent());
  await answeredBy('a');
  const own = held(['udp', ...words('IPv4'), 3], node.self);
  await own.says('held 3');
  const [b] = node.pods('b');
  await route('add', b!.ipv4);
  put('b');
  await untilHolds(async () => {
    const { staleSockets } = await node.status();
    expect(staleSockets).toMatchObject({ connected: 0, waiting: 0, left: [] });
    expect(errorsOf(own)).toEqual(['ECONNABORTED', 'ECONNABORTED', 'ECONNABORTED']);
  }, RECOVERY_MS);
  await route('del', b!.ipv4);
});
