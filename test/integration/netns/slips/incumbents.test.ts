// SPDX-License-Identifier: Apache-2.0
// Two Services of a folder ask for one frontend while the engine changes: the one that serves keeps it, read from the kernel.
import { rmSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { lastGoodPath } from '../../../../src/config/instance-paths.ts';
import type { ServiceRow } from '../../../../src/observe/service-rows.ts';
import type { Agent } from '../../../../tools/lab/agent.ts';
import { type Client, startClient } from '../../../../tools/lab/traffic.ts';
import { clusterIps, service } from '../../../support/builders.ts';
import { askAgent } from '../../../support/fixture/proxies/ask-agent.ts';
import { startNodes, type TestNode, type TestNodes } from '../../../support/node.ts';
import { untilHolds } from '../../../support/until.ts';

const SPEC = { n: 10, nodePort: 30_080 };

let all: TestNodes;
let node: TestNode;
let outside: Client;
let agent: Agent;

beforeAll(async () => {
  all = await startNodes([
    { name: 'n1', servers: ['a', 'b'], clients: ['pod'] },
    { name: 'n2', servers: [], clients: [] },
  ]);
  const [first, second] = all.nodes as [TestNode, TestNode];
  node = first;
  outside = await startClient(second.self);
});
afterAll(async () => {
  await agent?.stop();
  await outside?.stop();
  all?.remove();
});

const ADDRESSES = { IPv4: '192.168.77.1', IPv6: 'fd00:77::1' } as const;

/** Of each kind of client: whose backend answers. Rules serve no ClusterIP in this network: it has no route there. */
const answers = async (): Promise<readonly unknown[]> => {
  const at = (family: keyof typeof ADDRESSES) =>
    ({ protocol: 'TCP', address: ADDRESSES[family], port: SPEC.nodePort }) as const;
  const found = [
    await node.client().once(at('IPv4')),
    await node.client().once(at('IPv6')),
    await outside.once(at('IPv4')),
    await outside.once(at('IPv6')),
  ];
  return found.map((answer) => (answer.kind === 'answered' ? answer.backend : answer));
};
/** Of the frontends of both ClusterIPs. */
const owners = async (): Promise<readonly string[]> => {
  const rows = (await askAgent(node.instance.runDir, '/v1/services')) as readonly ServiceRow[];
  const { ipv4, ipv6 } = clusterIps(SPEC.n);
  return rows
    .filter(({ frontend }) => frontend.startsWith(`${ipv4}:`) || frontend.startsWith(`[${ipv6}]:`))
    .map(({ name }) => name);
};
const expectWeb = async (): Promise<void> => {
  expect(await answers()).toEqual(['a', 'a', 'a', 'a']);
  expect(await owners()).toEqual(['web', 'web']);
};
const put = (name: string, server: string): number =>
  node.manifests.put(`${name}.yaml`, service(name, SPEC, node.pods(server)));
const rejected = async (): Promise<string> =>
  (await node.status()).problems.map(({ reason }) => reason).join('\n');

test.each([
  { from: 'bpf', to: 'iptables', takesOver: false },
  { from: 'iptables', to: 'bpf', takesOver: false },
  { from: 'bpf', to: 'iptables', takesOver: true },
  { from: 'iptables', to: 'bpf', takesOver: true },
])('from $from to $to, --take-over $takesOver', async ({ from, to, takesOver }) => {
  const start = (engine: string): Promise<Agent> =>
    node.startAgent(['--engine', engine, ...(takesOver ? ['--take-over'] : [])]);
  put('web', 'a');
  agent = await start(from);
  await node.programmed();
  await expectWeb();
  // By its name it comes first.
  put('aaa', 'b');
  await untilHolds(async () =>
    expect(await rejected()).toContain('already belongs to Service default/web'),
  );
  if (!takesOver) await agent.stop();
  // Without an earlier agent's memory of the folder, as after an upgrade.
  rmSync(lastGoodPath(node.instance.runDir), { force: true });
  const before = agent;
  agent = await start(to);
  expect((await node.status()).dataplanes).toEqual([to]);
  expect(await rejected()).toContain('already belongs to Service default/web');
  await expectWeb();
  if (takesOver) await before.stop();
  node.manifests.remove('aaa.yaml');
  await untilHolds(async () => expect(await rejected()).toBe(''));
  await expectWeb();
  await agent.stop();
});
