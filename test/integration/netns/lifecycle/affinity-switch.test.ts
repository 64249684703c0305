// SPDX-License-Identifier: Apache-2.0
// Session affinity, and UDP sockets, in a switch of engines: clients outside the node, pods, and processes of the node keep the
// backends that the other engine has given them.
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Agent } from '../../../../tools/lab/agent.ts';
import { type Client, type OpenSocket, startClient } from '../../../../tools/lab/traffic.ts';
import { service } from '../../../support/builders.ts';
import { startNodes, type TestNode, type TestNodes } from '../../../support/node.ts';
import { until } from '../../../support/until.ts';

/** By chance all keep one of five backends in one run of ten million. */
const SERVICES = Array.from({ length: 10 }, (_, index) => ({
  n: 10 + index,
  nodePort: 30_080 + index,
  affinitySeconds: 600,
}));
const BACKENDS = ['a', 'b', 'c', 'd', 'e'];

const DNS = { n: 53, port: 53, targetPort: 5353, protocol: 'UDP', nodePort: 30_053 } as const;
const SOCKETS = 8;

let all: TestNodes;
let node: TestNode;
let clients: Readonly<Record<'outside' | 'node', Client>>;

beforeAll(async () => {
  all = await startNodes([
    { name: 'n1', servers: BACKENDS, clients: ['pod'] },
    { name: 'n2', servers: [], clients: [] },
  ]);
  const [first, second] = all.nodes as [TestNode, TestNode];
  node = first;
  clients = { outside: await startClient(second.self), node: await startClient(first.self) };
  for (const web of SERVICES) {
    node.manifests.put(`web-${web.n}.yaml`, service(`web-${web.n}`, web, node.servers));
  }
  node.manifests.put('dns.yaml', service('dns', DNS, node.servers));
});
afterAll(async () => {
  await clients?.outside.stop();
  await clients?.node.stop();
  all?.remove();
});

const ADDRESSES = { IPv4: '192.168.77.1', IPv6: 'fd00:77::1' } as const;

/** The backends of each Service, in order. */
async function backendsOf(client: Client, family: keyof typeof ADDRESSES) {
  const backends: string[] = [];
  for (const { nodePort } of SERVICES) {
    const target = { protocol: 'TCP', address: ADDRESSES[family], port: nodePort } as const;
    const answer = await client.once(target);
    backends.push(answer.kind === 'answered' ? answer.backend : JSON.stringify(answer));
  }
  return backends;
}

const everybody = async () => ({
  outside: await backendsOf(clients.outside, 'IPv4'),
  outside6: await backendsOf(clients.outside, 'IPv6'),
  pod: await backendsOf(node.client(), 'IPv4'),
  pod6: await backendsOf(node.client(), 'IPv6'),
  node: await backendsOf(clients.node, 'IPv4'),
});

/** Equal failures would look like an affinity that is kept. */
const expectAnswered = (all: Readonly<Record<string, readonly string[]>>): void =>
  expect(
    Object.values(all)
      .flat()
      .filter((one) => !BACKENDS.includes(one)),
  ).toEqual([]);

type Engine = 'bpf' | 'iptables' | 'nftables';

/** Of the last agent. */
let running: Engine | undefined;

/** Once the last engine serves no more: what is left from before it may end sooner, and is another one. */
async function startEngine(engine: Engine): Promise<Agent> {
  const devices = engine === 'bpf' ? ['--devices', 'auto'] : [];
  const agent = await node.startAgent(['--engine', engine, ...devices]);
  await node.programmed();
  if (running !== undefined && running !== engine) await handedOver(agent, running);
  running = engine;
  return agent;
}

const handedOver = (agent: Agent, from: Engine): Promise<true> =>
  until(
    () => isLogged(agent, from, /keeping the other engine|the other engine is removed/),
    `the end of ${from}`,
  );

const isLogged = (agent: Agent, from: Engine, message: RegExp): boolean =>
  agent.log.some((line) => line.includes(`"engine":"${from}"`) && message.test(line));

test.each([
  ['iptables', 'bpf'],
  ['nftables', 'bpf'],
  ['iptables', 'nftables'],
] as const)('session affinity is kept from %s to %s, and back', async (one, other) => {
  const first = await startEngine(one);
  const before = await everybody();
  expectAnswered(before);
  await first.stop();
  for (const [from, engine] of [
    [one, other],
    [other, one],
  ] as const) {
    const agent = await startEngine(engine);
    expect(isLogged(agent, from, /"clients":\d+.*session affinity adopted/), from).toBe(true);
    expect(await everybody()).toEqual(before);
    await agent.stop();
  }
});

test('connected UDP sockets are answered from iptables to bpf, those of the node by the same backend', async () => {
  const rules = await startEngine('iptables');
  const target = { protocol: 'UDP', address: ADDRESSES.IPv4, port: DNS.nodePort } as const;
  const from = { ...clients, pod: node.client() };
  const opened = await Promise.all(
    Object.entries(from).map(async ([name, client]) => {
      const sockets = Array.from({ length: SOCKETS }, () =>
        client.open({ ...target, isConnected: true }),
      );
      return [name, await Promise.all(sockets)] as const;
    }),
  );
  const talk = async (sockets: readonly OpenSocket[]): Promise<readonly string[]> =>
    Promise.all(
      sockets.map(async (socket) => {
        const answer = await socket.talk('hello');
        return answer.kind === 'answered' ? answer.backend : JSON.stringify(answer);
      }),
    );
  const everyone = async () =>
    Object.fromEntries(
      await Promise.all(
        opened.map(async ([name, sockets]) => [name, await talk(sockets)] as const),
      ),
    );
  const before = await everyone();
  await rules.stop();
  const bpf = await startEngine('bpf');
  const after = await everyone();
  expectAnswered(before);
  expectAnswered(after);
  // No program sees what a socket of the node sends that was connected before: conntrack goes on.
  expect(after['node']).toEqual(before['node']);
  await Promise.all(opened.flatMap(([, sockets]) => sockets.map((socket) => socket.close())));
  await bpf.stop();
});
