// SPDX-License-Identifier: Apache-2.0
// Each engine takes the place of each other one while clients in pods, of the node and outside go on: no new connection and no
// question fails. What is open goes on, unless the table of limits says of the engine before that it ends with its agent.
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  BPF,
  IPTABLES,
  NFTABLES,
  userspaceCapabilities,
} from '../../../../src/engines/capabilities.ts';
import { limitationsOf } from '../../../../src/engines/limitations.ts';
import type { Agent } from '../../../../tools/lab/agent.ts';
import { type Client, startClient } from '../../../../tools/lab/traffic.ts';
import { service, target } from '../../../support/builders.ts';
import { routeServices } from '../../../support/iptables/routed-node.ts';
import { startNodes, type TestNode, type TestNodes } from '../../../support/node.ts';
import { circuitOf } from '../../../support/switching/circuit.ts';
import {
  type Path,
  tableLine,
  trafficDuring,
  WORKERS,
} from '../../../support/switching/traffic.ts';
import { until } from '../../../support/until.ts';

const WEB = { n: 10, nodePort: 30_080 } as const;
const DNS = { n: 53, port: 53, targetPort: 5353, protocol: 'UDP', nodePort: 30_053 } as const;
const ADDRESS = '192.168.77.1';

const ENGINES = {
  bpf: BPF,
  iptables: IPTABLES,
  nftables: NFTABLES,
  userspace: userspaceCapabilities('addresses'),
} as const;
type Engine = keyof typeof ENGINES;
const NAMES = Object.keys(ENGINES) as Engine[];

let all: TestNodes;
let node: TestNode;
let agent: Agent;
let paths: Readonly<Record<string, Path>>;
const clients: Client[] = [];

beforeAll(async () => {
  all = await startNodes([
    { name: 'n1', servers: ['a', 'b'], clients: ['pod'] },
    { name: 'n2', servers: [], clients: [] },
  ]);
  const [first, second] = all.nodes as [TestNode, TestNode];
  node = first;
  await routeServices(node);
  node.manifests.put('web.yaml', service('web', WEB, node.servers));
  node.manifests.put('dns.yaml', service('dns', DNS, node.servers));
  agent = await start(NAMES[0]!);
  clients.push(await startClient(first.self), await startClient(second.self));
  const [self, outside] = clients as [Client, Client];
  const within = { tcp: target(WEB), udp: target(DNS) };
  const at = (port: number, protocol: 'TCP' | 'UDP') => ({ address: ADDRESS, port, protocol });
  paths = {
    pod: { client: node.client(), ...within },
    node: { client: self, ...within },
    outside: {
      ...{ client: outside, tcp: at(WEB.nodePort, 'TCP'), udp: at(DNS.nodePort, 'UDP') },
    },
  };
});
afterAll(async () => {
  for (const client of clients) await client.stop();
  await agent?.stop();
  all?.remove();
});

const start = (engine: Engine): Promise<Agent> =>
  node.startAgent([
    ...['--engine', engine, '--take-over'],
    ...(engine === 'bpf' ? ['--devices', 'auto'] : []),
  ]);

/** As a DaemonSet does it: the next agent takes over, then the one before is ended. */
async function replaceBy(to: Engine, from: Engine): Promise<void> {
  const before = agent;
  agent = await start(to);
  await before.stop();
  // It has taken what it had in the kernel with it.
  if (endsWithItsAgent(from)) return;
  const isOver = (line: string): boolean =>
    line.includes(`"engine":"${from}"`) &&
    /keeping the other engine|the other engine is removed/.test(line);
  await until(() => agent.log.some(isOver), `the end of ${from}`).catch((error: unknown) => {
    throw new Error(agent.log.slice(-20).join('\n'), { cause: error });
  });
}

const endsWithItsAgent = (engine: Engine): boolean =>
  limitationsOf(ENGINES[engine]).some(({ code }) => code === 'AGENT');

/**
 * A process of the node that connects to an address which the node has does so from that address: while rules serve already and
 * the node still has it, what such a process begins may be lost. So may a datagram that the agent relays when it ends.
 */
const mayBeLost = (name: string, from: Engine, to: Engine): boolean =>
  endsWithItsAgent(from) && (name.endsWith('UDP') || (name === 'node TCP' && to !== 'bpf'));

const walk = circuitOf(NAMES);

test.each(walk.slice(1).map((to, index) => [walk[index]!, to] as const))(
  '%s -> %s',
  async (from, to) => {
    const report = await trafficDuring(paths, () => replaceBy(to, from));
    process.stderr.write(`${tableLine(from, to, report)}\n`);
    const failed = Object.entries(report.failed).filter(
      ([name, { length }]) => !mayBeLost(name, from, to) || length > WORKERS,
    );
    expect(failed).toEqual([]);
    if (endsWithItsAgent(from)) return;
    expect(report.lost).toEqual({ tcp: [], udp: [] });
  },
);
