// SPDX-License-Identifier: Apache-2.0
// A cluster behind a router that spreads packets over three nodes: n1, n2 and n3 get what is for the Services' addresses, n4
// and n5 have servers, and so has n3. The client is behind the router; what nodes answer it themselves comes back on their
// own way. A node can be lost with all that it knows, and come back.
//
//   client ── router ── wire ─┬─ n1, n2, n3 (s3)
//                             └─ n4 (s1), n5 (s2)
import { rmSync } from 'node:fs';
import { run } from '../../../src/sys/exec.ts';
import { insideNamespace, ipBatch, writeSysctls } from '../../../src/sys/netns.ts';
import type { Agent } from '../../../tools/lab/agent.ts';
import type { Client } from '../../../tools/lab/traffic.ts';
import type { Pod } from '../../../tools/lab/wiring.ts';
import { startNodes, type TestNode } from '../node.ts';
import { balancerOf, nodeObject, VIPS } from './direct-return.ts';

export const BALANCERS = ['n1', 'n2', 'n3'] as const;
export type Balancer = (typeof BALANCERS)[number];
const NODES = [...BALANCERS, 'n4', 'n5'];

export interface EcmpCluster {
  readonly client: Client;
  /** The client's own addresses, in the order of VIPS. */
  readonly addresses: readonly string[];
  /** Sandboxes of all sockets: that of the client and those of the servers. */
  readonly sockets: readonly Pod[];
  readonly nodes: Readonly<Record<Balancer, TestNode>>;
  /** Until all agents have Services with these annotations. */
  serve(annotations: Readonly<Record<string, string>>): Promise<void>;
  /** The next hops of the router from now on: flows by the hash of their addresses and ports. */
  spread(over: readonly Balancer[]): Promise<void>;
  /** Each packet to the node after the one of the packet before, whatever flow it is of. */
  alternate(): Promise<void>;
  /** Its agent is killed, its programs and tables are gone and so is its link. */
  lose(name: Balancer): Promise<void>;
  /** It is back, as after a reboot; no next hop yet. */
  restore(name: Balancer): Promise<void>;
  stop(): Promise<void>;
}

export async function startEcmpCluster(): Promise<EcmpCluster> {
  const servers: Readonly<Record<string, string>> = { n3: 's3', n4: 's1', n5: 's2' };
  const shapes = NODES.map((name) => ({
    ...{ name, clients: [] },
    servers: servers[name] === undefined ? [] : [servers[name]],
  }));
  const all = await startNodes([...shapes, { name: 'router', servers: [], clients: ['client'] }]);
  const nodes = all.nodes.slice(0, NODES.length);
  const router = all.nodes.at(-1)!;
  const named = Object.fromEntries(nodes.map((node) => [node.self.name, node])) as Record<
    string,
    TestNode
  >;
  const pods = nodes.flatMap((node) => node.servers);
  const clientPod = all.topology.nodes.at(-1)!.pods[0]!;
  const objects = NODES.map((name, at) => nodeObject(name, at + 1, NODES));
  for (const { manifests } of nodes) manifests.put('nodes.yaml', objects);
  // Without the link of a node its frames are for nobody, as behind network cards, which take only those for them.
  const ports = shapes.map((_shape, at) => `link set n${at + 1} type bridge_slave flood off`);
  await ipBatch(ports, `${all.topology.prefix}-wire`);
  await prepareRouter(router.self.namespace);
  const agents = new Map<string, Agent>();
  const startOn = async (name: string): Promise<void> => {
    const node = named[name]!;
    agents.set(name, await node.startAgent());
  };
  const setLink = (name: string, state: 'up' | 'down'): Promise<void> =>
    ipBatch([`link set ${name} ${state}`], `${all.topology.prefix}-wire`);
  await Promise.all(NODES.map(startOn));
  return {
    ...{ client: router.client(), addresses: [clientPod.ipv4, clientPod.ipv6] },
    sockets: [clientPod, ...pods],
    nodes: named as EcmpCluster['nodes'],
    serve: async (annotations) => {
      for (const { manifests } of nodes) {
        for (const transport of ['TCP', 'UDP'] as const) {
          const endpoints = pods.map((pod) => ({ pod }));
          manifests.put(`${transport}.yaml`, balancerOf(transport, annotations, endpoints));
        }
      }
      await Promise.all(nodes.map((node) => node.programmed()));
    },
    spread: async (over) => {
      await ipBatch(spreadLines(over), router.self.namespace);
      await must(router.self.namespace, ['nft', '-f', '-'], NO_ALTERNATION);
    },
    alternate: () => alternate(router.self.namespace),
    lose: async (name) => {
      await setLink(name, 'down');
      await agents.get(name)!.kill();
      rmSync(named[name]!.instance.bpfRoot, { recursive: true });
    },
    restore: async (name) => {
      await setLink(name, 'up');
      await startOn(name);
      await named[name]!.programmed();
    },
    stop: async () => {
      await Promise.all([...agents.values()].map((agent) => agent.stop()));
      all.remove();
    },
  };
}

const addressOf = (name: Balancer, family: number): string =>
  `${family === 0 ? '192.168.77.' : 'fd00:77::'}${BALANCERS.indexOf(name) + 1}`;

const spreadLines = (over: readonly Balancer[]): string[] =>
  VIPS.map((vip, family) => {
    const hops = over.map((name) => `nexthop via ${addressOf(name, family)} dev uplink`);
    return `route replace ${vip} ${hops.join(' ')}`;
  });

/**
 * The hash of a packet's own addresses, protocol and ports (policy 3), as a router computes it: policy 1 takes that of the sender's
 * socket if a packet still has it, as it has behind a veth, and TCP changes it when it sends something again.
 */
const SYSCTLS = Object.fromEntries(
  ['ipv4', 'ipv6'].flatMap((family) => [
    [`net/${family}/fib_multipath_hash_policy`, '3'],
    [`net/${family}/fib_multipath_hash_fields`, '55'],
  ]),
);

async function prepareRouter(namespace: string): Promise<void> {
  await writeSysctls(namespace, { ...SYSCTLS, 'net/ipv4/conf/all/send_redirects': '0' });
  const rules = BALANCERS.flatMap((name, at) =>
    VIPS.flatMap((vip, family) => [
      `${family === 0 ? '' : '-6 '}rule add fwmark ${at + 1} lookup ${at + 1}`,
      `route add ${vip} via ${addressOf(name, family)} dev uplink table ${at + 1}`,
    ]),
  );
  for (const line of rules) await must(namespace, ['ip', ...line.split(' ')]);
}

const NO_ALTERNATION = 'table inet alternate; delete table inet alternate';

async function alternate(namespace: string): Promise<void> {
  const mark = 'meta mark set numgen inc mod 3 offset 1';
  const text = `table inet alternate { chain each {
    type filter hook prerouting priority mangle;
    ip daddr ${VIPS[0]} ${mark}
    ip6 daddr ${VIPS[1]} ${mark}
  }
}`;
  await must(namespace, ['nft', '-f', '-'], text);
}

async function must(namespace: string, argv: readonly string[], stdin = ''): Promise<void> {
  const [program = '', ...args] = insideNamespace(namespace, argv);
  const { code, stderr } = await run(program, args, { stdin });
  if (code !== 0) throw new Error(`${argv.join(' ')}: ${stderr.trim()}`);
}
