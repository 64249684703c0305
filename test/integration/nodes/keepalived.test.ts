// SPDX-License-Identifier: Apache-2.0
// keepalived, kube-vip, MetalLB with an address on a device (of lo, it would become the source of the node's own connections): an externalIP or balancer address that one node at a time has
// itself, and that moves. Nobody listens at it, so the Service must serve all the while, and a process that
// listens at every address does not get it. A connection from outside that is open while the address moves is lost: the other
// node does not know it.
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { LineProgram } from '../../../tools/lab/lines.ts';
import { type ProbeTarget, startServer } from '../../support/fixture/programs/probe.ts';
import { type OtherNode, onEachProxy } from '../../support/nodes/other-node.ts';
import { isKubeProxy } from '../../support/nodes/proxies.ts';

const VIP: ProbeTarget = { protocol: 'TCP', address: '203.0.113.10', port: 80 };
const EXT: ProbeTarget = { ...VIP, address: '203.0.113.20' };
const QUICK = { timeoutMs: 2_000 } as const;
const MOVES = 6;

async function move({ stage }: OtherNode, from: string, to: string): Promise<void> {
  await stage().ip(to, [
    `addr add ${VIP.address}/32 dev eth0`,
    `addr add ${EXT.address}/32 dev eth0`,
  ]);
  await stage().sendThrough(to);
  await stage().ip(from, [
    `addr del ${VIP.address}/32 dev eth0`,
    `addr del ${EXT.address}/32 dev eth0`,
  ]);
}

onEachProxy('keepalived', {}, (node) => {
  let other: LineProgram | undefined;
  const asking = (client: string, target: ProbeTarget) => () => node.ask(client, target, QUICK);

  beforeAll(async () => {
    await node.serve(['balancer', 'b']);
    await node
      .stage()
      .ip('n1', [`addr add ${VIP.address}/32 dev eth0`, `addr add ${EXT.address}/32 dev eth0`]);
    await node.stage().sendThrough('n1');
  });
  afterAll(() => other?.stop());

  test('the node that has the address serves it', async () => {
    for (const client of ['X', 'p1', 'n1', 'p2', 'n2']) {
      await node.sees(`${client} -> balancer address of n1`, 'B:8080', asking(client, VIP));
      await node.sees(`${client} -> external IP of n1`, 'B:8080', asking(client, EXT));
    }
  });

  test('it moves to and fro while clients of both nodes ask: nothing is lost', async () => {
    // To rules and kube-proxy a process of the node comes with the address itself, and loses its connection with it.
    const clients = node.proxy === 'eBPF' ? ['p1', 'p2', 'n1', 'n2'] : ['p1', 'p2'];
    const ends = new Set<string>();
    let asked = 0;
    let isMoving = true;
    const ask = async (client: string): Promise<void> => {
      const probe = await node.stage().probe(client);
      while (isMoving) {
        const { counts } = await probe.burst(VIP, { count: 20, timeoutMs: 5_000 });
        for (const [how, count] of Object.entries(counts)) {
          ends.add(how.split('>')[0] ?? how);
          asked += count;
        }
      }
    };
    const running = clients.map(ask);
    for (let moves = 0; moves < MOVES; moves++) {
      await move(node, ...((moves % 2 === 0 ? ['n1', 'n2'] : ['n2', 'n1']) as [string, string]));
      await node.sees('X -> balancer address after a move', 'B:8080', asking('X', VIP));
    }
    isMoving = false;
    await Promise.all(running);
    const what = `${clients.join(', ')} -> balancer address while it moves ${MOVES} times`;
    await node.sees(what, '10.1.2.5:8080', async () => [...ends].join(' '));
    expect(asked).toBeGreaterThan(100);
  });

  test('a process that listens at every address of the node does not get it', async () => {
    const { cluster } = node.stage();
    other = await startServer(cluster.sandbox('n1'), cluster.programs, ['0.0.0.0', '::'], [80]);
    await node.sees('X -> balancer address, listener at 0.0.0.0:80', 'B:8080', asking('X', VIP));
    await node.sees('n1 -> balancer address, listener at 0.0.0.0:80', 'B:8080', asking('n1', VIP));
    await other.stop();
  });

  test('one that listens at exactly the address gets it from fairlead', async () => {
    const { cluster } = node.stage();
    other = await startServer(cluster.sandbox('n1'), cluster.programs, [VIP.address], [80]);
    const answer = {
      all: 'vip:80',
      'kube-proxy iptables': 'B:8080',
      'kube-proxy nftables': 'B:8080',
    } as const;
    await node.sees('p1 -> balancer address, listener at it', answer, asking('p1', VIP));
    await node.sees('X -> balancer address, listener at it', answer, asking('X', VIP));
    await node.sees('n1 -> external IP beside it', 'B:8080', asking('n1', EXT));
    await node.sees('pod of another node, listener at it', 'B:8080', asking('p2', VIP));
    await other.stop();
    await node.sees('X -> balancer address, the listener has ended', 'B:8080', asking('X', VIP));
  });

  test.runIf(!isKubeProxy(node.proxy))(
    'the Service answers within a second of its end',
    async () => {
      const { cluster } = node.stage();
      other = await startServer(cluster.sandbox('n1'), cluster.programs, [VIP.address], [80]);
      const probe = await node.stage().probe('p1');
      await node.sees('p1 -> balancer address, listener back', 'vip:80', asking('p1', VIP));
      await other.stop();
      const { elapsedMs } = await probe.awaitAnswer(VIP, 5_000);
      expect(elapsedMs).toBeLessThan(1_000);
      expect(await node.ask('p1', VIP, QUICK)).toBe('B:8080');
    },
  );
});
