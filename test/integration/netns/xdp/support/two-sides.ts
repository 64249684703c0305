// SPDX-License-Identifier: Apache-2.0
// Two nodes that both have an agent with XDP, and a machine outside that is a client of both.
import { type Endpoint, nodeManifest } from '../../../../../tools/lab/manifests.ts';
import { type Client, startClient } from '../../../../../tools/lab/traffic.ts';
import { service } from '../../../../support/builders.ts';
import { startNodes, type TestNode } from '../../../../support/node.ts';
import { until } from '../../../../support/until.ts';
import { asCards } from './cards.ts';

export const ADDRESSES = {
  n1: { IPv4: '192.168.77.1', IPv6: 'fd00:77::1' },
  n2: { IPv4: '192.168.77.2', IPv6: 'fd00:77::2' },
} as const;
const PROTOCOLS = ['TCP', 'UDP'] as const;
/**
 * NodePorts of both nodes. `a` and `b`: of the pod on n1, and on n2. `chain`: n1 knows the NodePort of n2 as its endpoint, and n2 the pod
 * on n1. `loop`: each knows the NodePort of the other one.
 */
export const PORTS = { a: 30080, b: 30081, chain: 30082, loop: 30083 } as const;
/** Of the two ports above that lead to a port of the other node, by protocol of that. */
const TARGETS = { chain: 30092, loop: 30093 } as const;

export interface TwoSides {
  readonly nodes: readonly [TestNode, TestNode];
  readonly outside: Client;
  /** In the pod on n2. */
  readonly inside: Client;
  /** Frames that XDP of both has sent, by each. */
  sent(): Promise<readonly [number, number]>;
  lost(): Promise<number>;
  stop(): Promise<void>;
}

export async function startTwoSides(): Promise<TwoSides> {
  const all = await startNodes([
    { name: 'n1', servers: ['a'], clients: [] },
    { name: 'n2', servers: ['b'], clients: ['client'] },
    { name: 'outside', servers: [], clients: [] },
  ]);
  const [first, second, machine] = all.nodes as [TestNode, TestNode, TestNode];
  await asCards(`${all.topology.prefix}-wire`, ['n1', 'n2'], all.nodes);
  const nodes = [first, second] as const;
  nodes.forEach((node, at) => {
    const objects = all.nodes.slice(0, 2).map(({ self }) => nodeManifest(hostOf(all, self.name)));
    node.manifests.put('web.yaml', [...objects, ...servicesOf(at === 0, first, second)]);
  });
  const outside = await startClient(machine.self);
  const inside = await startClient(second.servers[0]!);
  const agents = await Promise.all(
    nodes.map((node) => node.startAgent(['--xdp', 'uplink=native'])),
  );
  const xdpOf = async (node: TestNode) =>
    (await node.status()).devices.find(({ name }) => name === 'uplink')?.xdp;
  for (const node of nodes) {
    await until(async () => (await xdpOf(node))?.state === 'on', `XDP of ${node.self.name}`);
  }
  // What a device says is as old as its last watch, this is not.
  const sentBy = async (node: TestNode) => (await node.status()).reasons['XDP_SENT'] ?? 0;
  return {
    ...{ nodes, outside, inside },
    sent: () => Promise.all([sentBy(first), sentBy(second)]),
    lost: async () => {
      const all = await Promise.all(nodes.map(xdpOf));
      return all.reduce((sum, xdp) => sum + (xdp?.lost ?? 0), 0);
    },
    stop: async () => {
      await Promise.all(agents.map((agent) => agent.stop()));
      all.remove();
    },
  };
}

const hostOf = ({ topology }: Awaited<ReturnType<typeof startNodes>>, name: string) =>
  topology.nodes.find((node) => node.name === name)!;

/** What one of them knows: they do not agree. */
function servicesOf(isFirst: boolean, first: TestNode, second: TestNode) {
  const other = isFirst ? 'n2' : 'n1';
  const { IPv4: ipv4, IPv6: ipv6 } = ADDRESSES[other];
  const port: Endpoint['pod'] = { name: other, nodeName: other, ipv4, ipv6 };
  const [a, b] = [first.servers[0]!, second.servers[0]!];
  return PROTOCOLS.flatMap((protocol, index) => {
    const to = (name: keyof typeof PORTS, pod: Endpoint['pod'], targetPort = 8080) =>
      service(
        `${name}-${protocol.toLowerCase()}`,
        {
          n: 10 * (Object.keys(PORTS).indexOf(name) + 1) + index,
          ...{ protocol, targetPort },
          nodePort: nodePort(name),
        },
        [pod],
      );
    const nodePort = (name: keyof typeof PORTS): number =>
      name in TARGETS && !isFirst ? TARGETS[name as keyof typeof TARGETS] : PORTS[name];
    return [
      ...to('a', a),
      ...to('b', b),
      ...(isFirst ? to('chain', port, TARGETS.chain) : to('chain', a)),
      ...to('loop', port, isFirst ? TARGETS.loop : PORTS.loop),
    ];
  });
}
