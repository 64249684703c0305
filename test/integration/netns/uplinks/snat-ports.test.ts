// SPDX-License-Identifier: Apache-2.0
// 60,000 connections at once, and 12,000 questions, of one backend on another node: each has a port of the node, and gets its own answer. So
// do connections of the node itself from the same ports.
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { ipBatch, writeSysctls } from '../../../../src/sys/netns.ts';
import { service } from '../../../support/builders.ts';
import { startNodes, type TestNode, type TestNodes } from '../../../support/node.ts';
import { askMany, type ManyProtocol, whileManyServed } from '../../../support/programs/many.ts';
import { untilHolds } from '../../../support/until.ts';

const UPLINK = '192.168.77.1';
const NODE_PORT = 30_080;
const TARGET_PORT = 9090;
const CLIENTS = { tcp: 60_000, udp: 12_000 } as const;
/** Outside of the node's own, so that a client keeps it. */
const SAME_PORT = 20_000;
/** So many that the SYN of one in 255 looks like that of the client. */
const MANY_PORTS = 3000;
/** As Linux has it; in the lab clients have all ports. */
const DEFAULT_PORTS = { 'net/ipv4/ip_local_port_range': '32768 60999' };
const SOURCES = Array.from({ length: 20 }, (_, n) => `192.168.77.${100 + n}`);
/** No other client has any of its ports. */
const CLIENT = '192.168.77.120';

let all: TestNodes;
let second: TestNode;

beforeAll(async () => {
  all = await startNodes([
    { name: 'n1', servers: [], clients: [] },
    { name: 'n2', servers: ['far'], clients: [] },
  ]);
  const [first] = all.nodes;
  second = all.nodes[1]!;
  await ipBatch(
    [...SOURCES, CLIENT].map((address) => `addr add ${address}/24 dev uplink`),
    second.self.namespace,
  );
  await writeSysctls(first!.self.namespace, DEFAULT_PORTS);
  const node = {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: 'n1' },
    status: { addresses: [{ type: 'InternalIP', address: UPLINK }] },
  };
  for (const protocol of ['TCP', 'UDP'] as const) {
    const port = { protocol, nodePort: NODE_PORT, targetPort: TARGET_PORT };
    const n = protocol === 'TCP' ? 10 : 11;
    const objects = service(protocol.toLowerCase(), { n, ...port }, second.pods('far'));
    first!.manifests.put(`${protocol}.yaml`, [...(n === 10 ? [node] : []), ...objects]);
  }
  await first!.startAgent(['--map-size', 'flows=262144']);
});
afterAll(() => all?.remove());

const backend = (): string => second.pods('far')[0]!.ipv4;

const whileServed = <T>(
  protocol: ManyProtocol,
  count: number,
  play: (hasBegun: Promise<void>) => Promise<T>,
): Promise<T> => whileManyServed(second, 'far', [protocol, TARGET_PORT, count], play);

const throughNodePort = (protocol: ManyProtocol, count: number, sources = SOURCES) =>
  askMany(second, protocol, [UPLINK, NODE_PORT], count, sources);

const isServed = (protocol: ManyProtocol): Promise<void> =>
  untilHolds(async () =>
    expect(await whileServed(protocol, 1, () => throughNodePort(protocol, 1))).toBe('1 0 0 0'),
  );

test('all ports are the node’s own, as load balancers are tuned', async () => {
  const [first] = all.nodes;
  await writeSysctls(first!.self.namespace, { 'net/ipv4/ip_local_port_range': '1024 65535' });
  onTestFinished(() => writeSysctls(first!.self.namespace, DEFAULT_PORTS));
  await first!.programmed();
  expect(await whileServed('udp', 12_000, () => throughNodePort('udp', 12_000))).toBe(
    '12000 0 0 0',
  );
});

describe.each(['tcp', 'udp'] as const)('%s', (protocol) => {
  test('more clients than there are ports beside the node’s own', async () => {
    await isServed(protocol);
    const count = CLIENTS[protocol];
    expect(await whileServed(protocol, count, () => throughNodePort(protocol, count))).toBe(
      `${count} 0 0 0`,
    );
  });

  test('the node itself, from the ports of many clients', async () => {
    await isServed(protocol);
    const answers = await whileServed(protocol, 2 * MANY_PORTS, async (hasBegun) => {
      const from = (address: string): string[] =>
        Array.from({ length: MANY_PORTS }, (_, n) => `${address}:${SAME_PORT + 1 + n}`);
      const clients = throughNodePort(protocol, MANY_PORTS, from(CLIENT));
      await hasBegun;
      const to = [backend(), TARGET_PORT] as const;
      const own = askMany(all.nodes[0]!, protocol, to, MANY_PORTS, from(UPLINK));
      return await Promise.all([clients, own]);
    });
    expect(answers).toEqual([`${MANY_PORTS} 0 0 0`, `${MANY_PORTS} 0 0 0`]);
  });

  test('the node itself, from the port of a client', async () => {
    await isServed(protocol);
    const answers = await whileServed(protocol, 2, async (hasBegun) => {
      const client = throughNodePort(protocol, 1, [`${SOURCES[0]}:${SAME_PORT}`]);
      await hasBegun;
      const from = [`${UPLINK}:${SAME_PORT}`];
      const own = askMany(all.nodes[0]!, protocol, [backend(), TARGET_PORT], 1, from);
      return await Promise.all([client, own]);
    });
    expect(answers).toEqual(['1 0 0 0', '1 0 0 0']);
  });
});
