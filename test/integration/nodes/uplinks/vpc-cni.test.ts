// SPDX-License-Identifier: Apache-2.0
// Several uplinks with policy routing: pods whose addresses are routed by a second one (`from POD lookup 2`), as the VPC CNI
// of AWS has it, with its CONNMARK rules and without. A request that came in by the first uplink must be answered by it.
import { beforeAll, describe, test } from 'vitest';
import type { ProbeTarget } from '../../../support/fixture/programs/probe.ts';
import { type OtherNode, onEachProxy } from '../../../support/nodes/other-node.ts';
import { PACKETS, PROXIES } from '../../../support/nodes/proxies.ts';
import { addSecondUplink, addSourceRule, SECOND } from '../../../support/nodes/second-uplink.ts';

const FIRST = '192.0.2.11';
const at = (address: string, port = 30_080): ProbeTarget => ({ protocol: 'TCP', address, port });
const SVC = at('10.96.0.10', 80);
const NODE_PORT = { patch: {}, use: 'node-port' } as const;
const LOCAL = { use: 'node-port', patch: { spec: { externalTrafficPolicy: 'Local' } } } as const;
const IPV6 = {
  use: 'node-port',
  patch: { spec: { clusterIP: 'fd00:96::10', clusterIPs: ['fd00:96::10'], ipFamilies: ['IPv6'] } },
};
const A_IPV6 = {
  use: 'ab6',
  patch: { endpoints: [{ addresses: ['2001:db8:1:1::5'], conditions: { ready: true } }] },
};
const UDP: ProbeTarget = { protocol: 'UDP', address: FIRST, port: 30_053 };
const QUICK = { timeoutMs: 2_000 } as const;
/** Another backend of n1, whose address the first uplink has. */
const A2 = {
  use: 'a',
  patch: {
    endpoints: [{ addresses: ['10.1.1.6'], conditions: { ready: true }, nodeName: 'n1' }],
  },
};

/** As the VPC CNI writes them; AWS calls the first uplink the primary ENI. */
const CONNMARK = [
  '*mangle',
  '-A PREROUTING -i eth0 -m comment --comment "AWS, primary ENI" -m addrtype --dst-type LOCAL --limit-iface-in -j CONNMARK --set-xmark 0x80/0x80',
  '-A PREROUTING -i v-+ -m comment --comment "AWS, primary ENI" -j CONNMARK --restore-mark --nfmask 0x80 --ctmask 0x80',
  'COMMIT',
];

async function addCniRules(node: OtherNode): Promise<void> {
  await node.rules('n1', 'iptables-nft', CONNMARK);
  const rule = ['rule', 'add', 'fwmark', '0x80/0x80', 'lookup', 'main', 'pref', '1024'];
  await node.run('n1', ['ip', ...rule]);
}

/** kube-proxy and rules leave it to the routes. */
const ONLY_EBPF = {
  all: 'A:8080',
  rules: 'silent',
  'kube-proxy iptables': 'silent',
  'kube-proxy nftables': 'silent',
} as const;

const OVER_IPV6 = { ...ONLY_EBPF, [PACKETS]: 'A6:8080', eBPF: 'A6:8080' } as const;
/** In its nftables mode only the node's primary address has NodePorts, unless it is told otherwise. */
const OF_SECOND = { ...ONLY_EBPF, 'kube-proxy nftables': 'refused' } as const;

onEachProxy('vpc-cni', { proxies: [...PROXIES, PACKETS] }, (node) => {
  beforeAll(() => addSecondUplink(node));

  describe('without the rules of the CNI', () => {
    test('NodePort, policy Cluster', async () => {
      await node.serve([NODE_PORT, 'a']);
      await node.sees('outside -> NodePort of the first uplink', ONLY_EBPF, () =>
        node.ask('X', at(FIRST), QUICK),
      );
    });

    test('NodePort, policy Local', async () => {
      await node.serve([LOCAL, 'a']);
      await node.sees('outside -> NodePort, policy Local', ONLY_EBPF, () =>
        node.ask('X', at(FIRST), QUICK),
      );
    });

    test('NodePort over UDP', async () => {
      await node.serve(['udp', 'udp-a']);
      const udp = { ...ONLY_EBPF, all: 'A:5353' };
      await node.sees('outside -> NodePort over UDP', udp, () => node.ask('X', UDP, QUICK));
    });

    test('NodePort over IPv6', async () => {
      await node.serve([IPV6, A_IPV6]);
      await node.sees('outside -> NodePort over IPv6', OVER_IPV6, () =>
        node.ask('X', at('2001:db8::11'), QUICK),
      );
    });

    test('address of a load balancer', async () => {
      await node.serve(['balancer', 'a']);
      await node.stage().sendThrough('n1');
      await node.sees('outside -> load balancer', ONLY_EBPF, () =>
        node.ask('X', at('203.0.113.10', 80), QUICK),
      );
    });

    test('ClusterIP, from a pod of the second uplink', async () => {
      await node.serve(['node-port', 'ab']);
      await node.sees('pod of the second uplink -> ClusterIP', 'A:8080 B:8080', () =>
        node.ask('p1', SVC, { count: 40 }),
      );
    });
  });

  test('eight thousand connections of one client, one after the other and at once', async () => {
    if (node.proxy !== 'eBPF') return;
    await node.serve([NODE_PORT, 'a']);
    await node.sees('outside -> NodePort, 8,000 connections', 'A:8080', () =>
      node.ask('X', at(FIRST), { count: 8_000, timeoutMs: 30_000 }),
    );
  });

  describe('with the rules of the CNI', () => {
    beforeAll(() => addCniRules(node));

    test('NodePort, policy Cluster', async () => {
      await node.serve([NODE_PORT, 'a']);
      await node.sees('outside -> NodePort, with the rules of the CNI', 'A:8080', () =>
        node.ask('X', at(FIRST), QUICK),
      );
    });

    test('NodePort, policy Local', async () => {
      await node.serve([LOCAL, 'a']);
      await node.sees(
        'outside -> NodePort, policy Local, with the rules of the CNI',
        'A:8080',
        () => node.ask('X', at(FIRST), QUICK),
      );
    });
  });

  describe('by the second uplink, on a node whose own answers leave by it', () => {
    beforeAll(() => addSourceRule(node));

    test('to a pod that the first uplink has', async () => {
      await node.serve([NODE_PORT, A2]);
      await node.sees(
        'outside -> NodePort of the second uplink',
        { ...OF_SECOND, all: 'A2:8080' },
        () => node.ask('X', at(SECOND.ipv4), QUICK),
      );
    });

    test('to a pod of another node', async () => {
      await node.serve([NODE_PORT, 'b']);
      await node.sees(
        'outside -> NodePort of the second uplink, backend of another node',
        { ...OF_SECOND, all: 'B:8080' },
        () => node.ask('X', at(SECOND.ipv4), QUICK),
      );
    });
  });
});
