// SPDX-License-Identifier: Apache-2.0
// `fairlead run --answer-ping`: pings of Services, from outside and from pods, are answered; by default they are not.
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Family } from '../../../../src/model/types.ts';
import { run } from '../../../../src/sys/exec.ts';
import { ipBatch } from '../../../../src/sys/netns.ts';
import type { Agent } from '../../../../tools/lab/agent.ts';
import { insideSandbox, type Sandbox } from '../../../../tools/lab/sandbox.ts';
import { startNodes, type TestNode, type TestNodes } from '../../../support/node.ts';
import { clusterIp, serviceObject } from '../../../support/objects.ts';
import { untilHolds } from '../../../support/until.ts';

const ADDRESSES = {
  'ClusterIP IPv4': '10.96.0.10',
  'ClusterIP IPv6': 'fd00:10:96::10',
  'external IP': '203.0.113.7',
  'load balancer address': '203.0.113.8',
} as const;
const NO_SERVICE = '203.0.113.9';
const UPLINK = '192.168.77.1';

let all: TestNodes;
/** Of the pod. */
let source: Readonly<Record<Family, string>>;
let node: TestNode;
let agent: Agent;
let clients: Readonly<Record<'outside' | 'pod', Sandbox>>;

const withExternalIps = (externalIPs: readonly string[]) =>
  serviceObject(
    'web',
    {
      type: 'LoadBalancer',
      ...clusterIp(ADDRESSES['ClusterIP IPv4'], ADDRESSES['ClusterIP IPv6']),
      externalIPs,
    },
    { status: { loadBalancer: { ingress: [{ ip: ADDRESSES['load balancer address'] }] } } },
  );

beforeAll(async () => {
  all = await startNodes([
    { name: 'n1', servers: [], clients: ['client'] },
    { name: 'n2', servers: [], clients: [] },
  ]);
  const [first, second] = all.nodes;
  node = first!;
  const [pod] = all.topology.nodes[0]!.pods;
  clients = { outside: second!.self, pod: pod! };
  source = { IPv4: pod!.ipv4, IPv6: pod!.ipv6 };
  const via = { outside: [UPLINK, 'fd00:77::1'], pod: ['10.1.1.1', 'fd00:10:1::1'] } as const;
  for (const name of ['outside', 'pod'] as const) {
    const routes = [...Object.values(ADDRESSES), NO_SERVICE].map(
      (to) => `route replace ${to} via ${via[name][to.includes(':') ? 1 : 0]}`,
    );
    await ipBatch(routes, clients[name].namespace);
  }
  node.manifests.put('web.yaml', [withExternalIps([ADDRESSES['external IP']])]);
});
afterAll(() => all?.remove());

/** Without a source address `ping` asks for one with a UDP socket, which the socket hooks refuse for a ClusterIP. */
async function isAnswered(from: Sandbox, address: string): Promise<boolean> {
  const asked = from === clients.pod ? ['-I', source[address.includes(':') ? 'IPv6' : 'IPv4']] : [];
  const words = ['ping', '-c2', '-i0.2', '-W1', ...asked, address];
  const [program = '', ...args] = insideSandbox(from, words);
  const { code } = await run(program, args);
  return code === 0;
}

test('by default nobody is answered', async () => {
  agent = await node.startAgent(['--devices', 'auto']);
  expect(await isAnswered(clients.outside, ADDRESSES['external IP'])).toBe(false);
});

test('with --answer-ping every address of a Service is answered, to clients outside and in pods', async () => {
  await agent.stop();
  agent = await node.startAgent(['--devices', 'auto', '--answer-ping']);
  for (const [name, client] of Object.entries(clients)) {
    for (const [kind, address] of Object.entries(ADDRESSES)) {
      expect(await isAnswered(client, address), `${kind} for ${name}`).toBe(true);
    }
    expect(await isAnswered(client, NO_SERVICE), name).toBe(false);
    expect(await isAnswered(client, UPLINK), 'the node').toBe(true);
  }
});

test('an address that the Service no longer has is no longer answered', async () => {
  node.manifests.put('web.yaml', [withExternalIps([])]);
  await untilHolds(async () =>
    expect(await isAnswered(clients.outside, ADDRESSES['external IP'])).toBe(false),
  );
  expect(await isAnswered(clients.outside, ADDRESSES['load balancer address'])).toBe(true);
});
