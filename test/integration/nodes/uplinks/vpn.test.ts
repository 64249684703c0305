// SPDX-License-Identifier: Apache-2.0
// Uplinks without a link header, whose packets begin with the IP header: a VPN (tun, WireGuard) and the line to a provider (PPP).
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type LineProgram, startLines } from '../../../../tools/lab/lines.ts';
import { type OtherNode, onEachProxy } from '../../../support/nodes/other-node.ts';
import { outcomes } from '../../../support/nodes/outcomes.ts';
import { addSecondUplink } from '../../../support/nodes/second-uplink.ts';
import { answerOf, endpointsOf, nodePort, serviceOf } from '../../../support/nodes/tcp-and-udp.ts';

const ON_A = endpointsOf(['10.1.1.5', '2001:db8:1:1::5'], 'n1');
const NODE = { outer: '192.0.2.11', ipv4: '10.77.0.1', ipv6: 'fd77::1' } as const;
const CLIENT = { outer: '192.0.2.200', ipv4: '10.77.0.2', ipv6: 'fd77::2' } as const;
/** ARPHRD_*. */
const TYPES = { 'a VPN': '65534', 'a line to a provider': '512' } as const;
const QUICK = { timeoutMs: 500 } as const;
const TABLE_OF_LINE = '3';

type Ends = readonly [LineProgram, LineProgram];

/** tun0 of n1 and of the client X2, each the other's neighbour. */
async function connect({ stage }: OtherNode, type: string): Promise<Ends> {
  const { cluster, ip } = stage();
  const end = async (short: string, own: typeof NODE | typeof CLIENT, to: string) => {
    const routes = [`0.0.0.0/0=${to}`, `::/0=${to}`];
    const argv = [cluster.programs.tunnel, `${own.outer},${type}`, ...routes];
    const program = await startLines(cluster.tools(short), argv);
    await ip(short, [
      `addr add ${own.ipv4}/24 dev tun0`,
      `addr add ${own.ipv6}/64 dev tun0 nodad`,
      'link set tun0 mtu 1280 up',
    ]);
    return program;
  };
  return [await end('n1', NODE, CLIENT.outer), await end('X2', CLIENT, NODE.outer)];
}

onEachProxy('vpn', {}, (node) => {
  let ends: Ends | undefined;
  beforeAll(() => node.serve([serviceOf('Local'), ...ON_A]));
  afterEach(async () => {
    await Promise.all((ends ?? []).map((end) => end.stop()));
  });

  describe.each(Object.entries(TYPES))('%s', (what, type) => {
    test('in by it, to a pod that is routed by a second uplink', async () => {
      if (what === 'a VPN') await addSecondUplink(node);
      ends = await connect(node, type);
      for (const address of [NODE.ipv4, NODE.ipv6]) {
        for (const protocol of ['TCP', 'UDP'] as const) {
          const answer = answerOf('A', address, protocol);
          // By default kube-proxy serves NodePorts only at the node's first address in mode nftables.
          const expected = { all: 'silent', eBPF: answer, 'kube-proxy nftables': 'refused' };
          await node.sees(`${protocol} by ${what}, to ${address}`, expected, () =>
            node.ask('X2', nodePort(address, protocol), QUICK),
          );
        }
      }
      expect((await outcomes(node, 'ANSWER_SENT_BACK')) > 0).toBe(node.proxy === 'eBPF');
    });

    test('in by the first uplink, to a pod that is routed by it', async () => {
      ends = await connect(node, type);
      const rule = ['rule', 'add', 'from', '10.1.1.5', 'lookup', TABLE_OF_LINE, 'pref', '100'];
      await node.run('n1', ['ip', ...rule]);
      await node.stage().ip('n1', [`route add default dev tun0 table ${TABLE_OF_LINE}`]);
      // What the routes lead to a VPN leaves there: it may be the CNI's, between nodes.
      const isAnswered = node.proxy === 'eBPF' && what !== 'a VPN';
      const expected = isAnswered ? answerOf('A', NODE.outer, 'TCP') : 'silent';
      await node.sees(`TCP by eth0, the pod is routed by ${what}`, expected, () =>
        node.ask('X', nodePort(NODE.outer, 'TCP'), QUICK),
      );
      await node.run('n1', ['ip', 'rule', 'del', ...rule.slice(2)]);
    });
  });
});
