// SPDX-License-Identifier: Apache-2.0
// Least connections with real sockets of clients outside, who come by packets, and of a pod on the same Service: counts follow
// what is open, however it ends.

import { afterAll, beforeAll, expect, test } from 'vitest';
import { FAMILIES } from '../../../../src/model/types.ts';
import type { BackendRow } from '../../../../src/observe/backend-rows.ts';
import { deleteNamespaces, ipBatch } from '../../../../src/sys/netns.ts';
import type { Agent } from '../../../../tools/lab/agent.ts';
import type { Target } from '../../../../tools/lab/client/protocol.ts';
import { type Client, type OpenSocket, startClient } from '../../../../tools/lab/traffic.ts';
import { type ServiceSpec, service, target } from '../../../support/builders.ts';
import { askAgent } from '../../../support/fixture/proxies/ask-agent.ts';
import { startNodes, type TestNode, type TestNodes } from '../../../support/node.ts';
import { nodeObject } from '../../../support/packets/direct-return.ts';
import { storedFlows } from '../../../support/packets/lost-flows.ts';
import { untilHolds } from '../../../support/until.ts';

const PODS = ['a', 'b', 'c'];
const NODE = { IPv4: '192.168.77.1', IPv6: 'fd00:77::1' } as const;
const WEB = { n: 10, nodePort: 30_080 } as const;
const DNS = { n: 11, nodePort: 30_053, port: 53, targetPort: 5353, protocol: 'UDP' } as const;
/** Flows expire after 40 s at most, and a round of the sweep takes 10 s. Within that, what a test opens must have talked. */
const SWEPT_MS = 180_000;
const POLL_MS = 250;
const SHORT = [
  ...['--conntrack-tcp-timeout-established=40s', '--conntrack-udp-timeout=30s'],
  '--conntrack-udp-timeout-stream=30s',
];

type AddressFamily = (typeof FAMILIES)[number];
type Served = ServiceSpec & { readonly nodePort: number };
interface Opened {
  readonly family: AddressFamily;
  readonly backend: string;
  readonly socket: OpenSocket;
}

let all: TestNodes;
let node: TestNode;
let outside: Client;
let leaver: Client;
let agent: Agent;
/** Counts that were more than there were flows. */
const overcounted: string[] = [];

beforeAll(async () => {
  all = await startNodes([
    { name: 'n1', servers: PODS, clients: ['client'] },
    { name: 'outside', servers: [], clients: [] },
    { name: 'leaver', servers: [], clients: [] },
  ]);
  node = all.nodes[0]!;
  outside = await startClient(all.nodes[1]!.self);
  leaver = await startClient(all.nodes[2]!.self);
  node.manifests.put('n1.yaml', [nodeObject('n1', 1, [])]);
  for (const [name, spec] of Object.entries({ web: WEB, dns: DNS })) {
    const [first, ...slices] = service(name, spec, node.servers);
    const annotations = { 'fairlead.io/algorithm': 'least-connections' };
    const metadata = { name, namespace: 'default', annotations };
    node.manifests.put(`${name}.yaml`, [{ ...first, metadata }, ...slices]);
  }
  agent = await node.startAgent();
});
afterAll(async () => {
  await agent?.stop();
  all?.remove();
});

const atNode = ({ nodePort, protocol }: Served, family: AddressFamily): Target => ({
  ...{ protocol: protocol ?? 'TCP', address: NODE[family], port: nodePort },
});

/** So many of each family, one after the other. */
async function open(
  from: Client,
  to: (family: AddressFamily) => Target,
  count: number,
): Promise<Opened[]> {
  const opened: Opened[] = [];
  for (const family of FAMILIES) {
    for (let turn = 0; turn < count; turn += 1) {
      const socket = await from.open(to(family));
      const answer = socket.answer ?? (await socket.talk('first'));
      if (answer.kind === 'failed') throw new Error(`${family}: ${answer.code}`);
      opened.push({ family, socket, backend: answer.backend });
    }
  }
  return opened;
}

const fromOutside = (spec: Served, count: number, from = outside): Promise<Opened[]> =>
  open(from, (family) => atNode(spec, family), count);
const fromPod = (spec: Served, count: number): Promise<Opened[]> =>
  open(node.client(), (family) => target(spec, family), count);

async function close(opened: readonly Opened[]): Promise<void> {
  for (const { socket } of opened) await socket.close();
}

/** Of each backend: flows of packets, and open sockets. */
async function counted(name: string): Promise<Readonly<Record<AddressFamily, readonly string[]>>> {
  const rows = (await askAgent(node.instance.runDir, '/v1/backends')) as readonly BackendRow[];
  const of = (wanted: AddressFamily): readonly string[] =>
    PODS.map((pod) => {
      const { ipv4, ipv6 } = node.pods(pod)[0]!;
      const address = wanted === 'IPv4' ? `${ipv4}:` : `[${ipv6}]:`;
      const row = rows.find((one) => one.name === name && one.backend.startsWith(address));
      return `${row?.flows}+${row?.open}`;
    });
  return { IPv4: of('IPv4'), IPv6: of('IPv6') };
}

/** Connections of clients outside. */
const stored = (): number => storedFlows(node.instance.bpfRoot);

/** While flows end, and none begins: each is counted down with its end, not by what the sweep corrects later. */
async function expectNoMoreThanStored(): Promise<void> {
  const most = stored();
  const rows = (await askAgent(node.instance.runDir, '/v1/backends')) as readonly BackendRow[];
  const living = rows.reduce((sum, { flows = 0 }) => sum + flows, 0);
  if (living > most) overcounted.push(`${living} instead of ${most}`);
}

const both = (...counts: readonly string[]) => ({ IPv4: counts, IPv6: counts });
const ended = (isSo: () => Promise<void>): Promise<void> =>
  untilHolds(
    async () => {
      await expectNoMoreThanStored();
      await isSo();
    },
    SWEPT_MS,
    POLL_MS,
  );
const become = (name: string, ...counts: readonly string[]): Promise<void> =>
  ended(async () => expect(await counted(name)).toEqual(both(...counts)));

const talks = async (opened: readonly Opened[]): Promise<void> => {
  const answers = await Promise.all(opened.map(({ socket }) => socket.talk('again')));
  const backends = answers.map((answer) => (answer.kind === 'answered' ? answer.backend : answer));
  expect(backends).toEqual(opened.map(({ backend }) => backend));
};

const isOfB = ({ backend }: Opened): boolean => backend === 'b';

test('who has fewest of both gets the next ones, and an agent that is killed forgets none', async () => {
  const packets = await fromOutside(WEB, 6);
  expect(await counted('web')).toEqual(both('2+0', '2+0', '2+0'));
  const sockets = await fromPod(WEB, 6);
  expect(await counted('web')).toEqual(both('2+2', '2+2', '2+2'));
  await agent.kill();
  agent = await node.startAgent();
  expect(await counted('web')).toEqual(both('2+2', '2+2', '2+2'));
  await close(packets.filter(isOfB));
  await become('web', '2+2', '0+2', '2+2');
  const later = [...(await fromPod(WEB, 1)), ...(await fromOutside(WEB, 1))];
  expect(later.every(isOfB)).toBe(true);
  expect(await counted('web')).toEqual(both('2+2', '1+3', '2+2'));
  await close(sockets.filter(isOfB));
  await become('web', '2+2', '1+1', '2+2');
  const last = await fromOutside(WEB, 2);
  expect(last.every(isOfB)).toBe(true);
  const open = [...packets, ...sockets].filter((one) => !isOfB(one)).concat(later, last);
  await talks(open);
  await close(open);
  await become('web', '0+0', '0+0', '0+0');
  expect(overcounted.splice(0)).toEqual([]);
});

/** Its packets go nowhere any more, and what it has open ends without a word. */
async function vanish(): Promise<void> {
  const { prefix, nodes } = all.topology;
  await ipBatch(['link set n3 down'], `${prefix}-wire`);
  await leaver.stop();
  deleteNamespaces([nodes[2]!.namespace]);
}

test('flows of a client that has vanished expire, those that talk do not, and datagrams are counted down', async () => {
  await agent.stop();
  agent = await node.startAgent(SHORT);
  const stay = await fromOutside(WEB, 3);
  await fromOutside(WEB, 3, leaver);
  const datagrams = await fromOutside(DNS, 6);
  expect(await counted('web')).toEqual(both('2+0', '2+0', '2+0'));
  expect(await counted('dns')).toEqual(both('2+0', '2+0', '2+0'));
  await vanish();
  await ended(async () => {
    await talks(stay);
    expect(await counted('web')).toEqual(both('1+0', '1+0', '1+0'));
    expect(await counted('dns')).toEqual(both('0+0', '0+0', '0+0'));
  });
  // With flows anew, which may be of other backends.
  for (const { socket } of datagrams) expect(await socket.talk('again')).toHaveProperty('backend');
  expect(await counted('dns')).toEqual(both('2+0', '2+0', '2+0'));
  await close([...stay, ...datagrams]);
  expect(overcounted.splice(0)).toEqual([]);
});
