// SPDX-License-Identifier: Apache-2.0
// XDP on nodes that serve by direct return: what travels in Geneve is left to tc by both, and Services beside it are forwarded.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EarlyView } from '../../../../src/engines/snapshot.ts';
import type { TestNode } from '../../../support/node.ts';
import {
  BALANCER,
  type DirectCluster,
  OUTSIDE,
  PORTS,
  startDirectCluster,
  VIPS,
} from '../../../support/packets/direct-return.ts';
import { TIMEOUT_MS, until } from '../../../support/until.ts';
import { asCards } from './support/cards.ts';

let cluster: DirectCluster;

const xdpOf = async (node: TestNode): Promise<EarlyView | undefined> =>
  (await node.status()).devices.find(({ name }) => name === 'uplink')?.xdp;

/** As the program counts them. */
const sentBy = async (node: TestNode): Promise<number> =>
  (await node.status()).reasons['XDP_SENT'] ?? 0;

beforeAll(async () => {
  cluster = await startDirectCluster({
    flags: ['--xdp', 'uplink=native'],
    prepare: ({ topology, nodes }) => asCards(`${topology.prefix}-wire`, ['n1', 'n2', 'n3'], nodes),
  });
  await cluster.serve();
  for (const node of cluster.nodes) {
    await until(async () => (await xdpOf(node))?.state === 'on', `XDP of ${node.self.name}`);
  }
});
afterAll(() => cluster?.stop());

const CONNECTIONS = 60;
const target = (protocol: 'TCP' | 'UDP', family: number) =>
  ({ protocol, address: VIPS[family]!, port: PORTS[protocol] }) as const;
const only = () => ({ endpoints: [{ pod: cluster.servers[1]! }] });

describe.each([0, 1])('family %i', (family) => {
  test.each(['TCP', 'UDP'] as const)(
    '%s: every server answers by itself, none by XDP',
    async (protocol) => {
      await cluster.serve();
      const [first] = cluster.nodes;
      const before = await sentBy(first!);
      const { hits, failures } = await cluster.outside.burst(target(protocol, family), {
        connections: CONNECTIONS,
      });
      expect([Object.keys(hits).sort(), failures]).toEqual([['s1', 's2', 's3'], {}]);
      const answer = await cluster.outside.once(target(protocol, family));
      expect(answer).toMatchObject({ clientSeen: { address: OUTSIDE[family] } });
      expect(await sentBy(first!)).toBe(before);
    },
  );

  test('hybrid: TCP goes directly, UDP by XDP', async () => {
    await cluster.serve({ forwarding: 'hybrid', ...only() });
    const [first] = cluster.nodes;
    const before = await sentBy(first!);
    const [tcp, udp] = await Promise.all(
      (['TCP', 'UDP'] as const).map((protocol) =>
        cluster.outside.burst(target(protocol, family), { connections: CONNECTIONS }),
      ),
    );
    expect([tcp, udp]).toMatchObject(Array(2).fill({ hits: { s2: CONNECTIONS }, failures: {} }));
    expect(await cluster.outside.once(target('TCP', family))).toMatchObject({
      clientSeen: { address: OUTSIDE[family] },
    });
    expect(await cluster.outside.once(target('UDP', family))).toMatchObject({
      clientSeen: { address: BALANCER[family] },
    });
    await until(
      async () => (await sentBy(first!)) - before > CONNECTIONS * 2 * 0.9,
      'XDP to have sent as many frames',
    );
    expect((await xdpOf(first!))?.lost).toBe(0);
  });

  test('connections go on as they began when the Service changes', async () => {
    await cluster.serve(only());
    const direct = await cluster.outside.open(target('TCP', family));
    await cluster.serve({ forwarding: 'snat', ...only() });
    const masqueraded = await cluster.outside.open(target('TCP', family));
    await cluster.serve(only());
    const text = 'x'.repeat(100_000);
    for (const socket of [direct, masqueraded]) {
      expect(await socket.talk(text, undefined, TIMEOUT_MS)).toMatchObject({
        kind: 'answered',
        backend: 's2',
        text,
      });
      await socket.close();
    }
  });
});
