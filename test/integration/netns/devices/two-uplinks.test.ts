// SPDX-License-Identifier: Apache-2.0
// A node with two uplinks and strict reverse path filters: a request comes in by one of them, and its backend is behind
// the other. Each packet must leave with the address of its own device, or a filter drops it or its answer.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ipBatch, writeSysctls } from '../../../../src/sys/netns.ts';
import type { Agent } from '../../../../tools/lab/agent.ts';
import { type Client, startClient } from '../../../../tools/lab/traffic.ts';
import { service } from '../../../support/builders.ts';
import { startNodes, type TestNode, type TestNodes } from '../../../support/node.ts';
import { AT_ONCE_MS, until } from '../../../support/until.ts';

/** n1's address on the second uplink, and n2's, where the client is. */
const SECOND = { node: '198.51.100.1', client: '198.51.100.9' } as const;
const FIRST = '192.168.77.1';
const NODE_PORT = 30080;
const STRICT = Object.fromEntries(
  ['all', 'default', 'uplink', 'second'].map((name) => [`net/ipv4/conf/${name}/rp_filter`, '1']),
);

let all: TestNodes;
let node: TestNode;
let outside: Client;
let agent: Agent;

beforeAll(async () => {
  all = await startNodes([
    { name: 'n1', servers: [], clients: ['client'] },
    { name: 'n2', servers: ['far'], clients: [] },
  ]);
  const [first, second] = all.nodes;
  node = first!;
  const [here, there] = [first!.self.namespace, second!.self.namespace];
  await ipBatch(
    [
      `link add second type veth peer name second netns ${there}`,
      `addr add ${SECOND.node}/24 dev second`,
      'link set second up',
    ],
    here,
  );
  await ipBatch([`addr add ${SECOND.client}/24 dev second`, 'link set second up'], there);
  await writeSysctls(here, STRICT);
  outside = await startClient(second!.self);
  const { manifests } = node;
  manifests.put(
    'web.yaml',
    service('web', { n: 10, nodePort: NODE_PORT }, [second!.pods('far')[0]!]),
  );
  agent = await node.startAgent(['--devices', 'auto']);
});
afterAll(async () => {
  await agent?.stop();
  all?.remove();
});

test('both uplinks have programs', async () => {
  const { devices } = await node.status();
  const attached = devices.filter(({ isAttached }) => isAttached).map(({ name }) => name);
  expect(attached).toEqual(expect.arrayContaining(['uplink', 'second']));
});

test('in by one uplink, to a backend behind the other, and back', async () => {
  const answer = await until(async () => {
    const target = { address: SECOND.node, port: NODE_PORT, protocol: 'TCP' } as const;
    const one = await outside.once(target, AT_ONCE_MS);
    return one.kind === 'failed' ? undefined : one;
  }, 'an answer of the backend');
  // The backend sees the address of the device by which the request left.
  expect(answer).toMatchObject({ backend: 'far' });
  expect(JSON.stringify(answer)).toContain(FIRST);
});
