// SPDX-License-Identifier: Apache-2.0
// Two uplinks without marks, as on Azure or multi-homed metal: each address of the node is answered by its own uplink,
// whichever way its backend's packets would take.
import { beforeAll, expect, test } from 'vitest';
import { onEachProxy } from '../../../support/nodes/other-node.ts';
import { outcomes } from '../../../support/nodes/outcomes.ts';
import { addSecondUplink, addSourceRule, SECOND } from '../../../support/nodes/second-uplink.ts';
import {
  answerOf,
  endpointsOf,
  nodePort,
  serviceOf,
  servicePort,
} from '../../../support/nodes/tcp-and-udp.ts';

const EXTERNAL = '203.0.113.20';
const ON = {
  A: endpointsOf(['10.1.1.5', '2001:db8:1:1::5'], 'n1'),
  B: endpointsOf(['10.1.2.5', '2001:db8:1:2::5'], 'n2'),
} as const;
/** The second network has the external address, too; none takes what is another one's. */
const FABRIC = `delete table inet source-check
table inet fabric {
  chain prerouting {
    type filter hook prerouting priority raw;
    iifname "u-n1b" ip saddr { 192.0.2.0/24, 10.1.0.0/16 } drop
    iifname "u-n1b" ip6 saddr { 2001:db8::/64, 2001:db8:1::/48 } drop
    iifname { "br0", "u-n1" } ip saddr { 192.0.3.0/24, ${EXTERNAL} } drop
    iifname { "br0", "u-n1" } ip6 saddr 2001:db8:3::/64 drop
  }
}`;
/** Of the wire, where clients outside find Service addresses. */
const WIRE_TABLE = '100';

const QUICK = { timeoutMs: 500 } as const;

onEachProxy('two-uplinks', {}, (node) => {
  beforeAll(async () => {
    await addSecondUplink(node, []);
    await addSourceRule(node);
    await node
      .stage()
      .ip('n1', [`route add default via ${SECOND.router.ipv4} dev eth1 metric 200`]);
    const external = `route replace ${EXTERNAL}/32 via ${SECOND.ipv4} table ${WIRE_TABLE}`;
    await node.stage().ip('wire', [external]);
    await node.nft('wire', FABRIC);
  });

  for (const backend of ['A', 'B'] as const) {
    test(`in by the second uplink, to backend ${backend}`, async () => {
      await node.serve([serviceOf('Cluster'), ...ON[backend]]);
      for (const address of [SECOND.ipv4, SECOND.ipv6, EXTERNAL]) {
        for (const protocol of ['TCP', 'UDP'] as const) {
          const isNodePort = address !== EXTERNAL;
          const target = isNodePort ? nodePort(address, protocol) : servicePort(address, protocol);
          const answer = answerOf(backend, address, protocol);
          const what = `${protocol} to ${address} of the second uplink, backend ${backend}`;
          // By default kube-proxy serves NodePorts only at the node's first address in mode nftables.
          const inNftables = isNodePort ? 'refused' : 'silent';
          const expected = { all: 'silent', eBPF: answer, 'kube-proxy nftables': inNftables };
          await node.sees(what, expected, () => node.ask('X', target, QUICK));
        }
      }
      expect((await outcomes(node, 'ANSWER_SENT_BACK')) > 0).toBe(node.proxy === 'eBPF');
    });
  }

  test('an ICMP error of the backend goes back there, too', async () => {
    const closed = { ports: [{ name: 'http', port: 7777, protocol: 'UDP' }] };
    await node.serve(['udp', { use: 'udp-a', patch: closed }]);
    await node.sees(
      'UDP by the second uplink, to a closed port',
      { all: 'silent', eBPF: 'refused' },
      () => node.ask('X', servicePort(EXTERNAL, 'UDP'), QUICK),
    );
  });

  test('no way back by the uplink of the request: as the routes say', async () => {
    await node.serve([serviceOf('Local'), ...ON.A]);
    const second = `route del default via ${SECOND.router.ipv4} dev eth1 metric 200`;
    await node.stage().ip('n1', [second, 'route flush table 2']);
    await node.sees('the second uplink has no route to the client', 'silent', () =>
      node.ask('X', servicePort(EXTERNAL, 'TCP'), QUICK),
    );
    expect((await outcomes(node, 'ANSWER_NO_WAY')) > 0).toBe(node.proxy === 'eBPF');
    // Where the routes lead the network takes it now.
    await node.nft('wire', 'flush chain inet fabric prerouting');
    await node.sees('the same, and the first one takes the answer', 'A:8080', () =>
      node.ask('X', servicePort(EXTERNAL, 'TCP'), QUICK),
    );
  });
});

onEachProxy('two-uplinks', { network: 'vxlan' }, (node) => {
  test('in by an uplink, and answered by a tunnel, which alone knows the client', async () => {
    await node.serve([serviceOf('Cluster'), ...ON.A]);
    await node.run('n2', ['iptables-legacy', '-t', 'nat', '-F', 'FLANNEL-POSTRTG']);
    await node.stage().ip('wire', ['route del 10.1.2.0/24']);
    await node.sees('pod of another node, by an uplink -> NodePort', 'A:8080', () =>
      node.ask('p2', nodePort('192.0.2.11', 'TCP'), QUICK),
    );
  });
});
