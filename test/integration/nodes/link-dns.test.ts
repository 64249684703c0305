// SPDX-License-Identifier: Apache-2.0
// systemd-resolved with a DNS server for a link, and others whose sockets insist on a device: the address of the server is
// that of a Service, and its backend is behind another device.
import { beforeAll, describe, expect, test } from 'vitest';
import { run } from '../../../src/sys/exec.ts';
import { insideSandbox } from '../../../tools/lab/sandbox.ts';
import { nameOf } from '../../support/fixture/stories/names.ts';
import { type OtherNode, onEachProxy } from '../../support/nodes/other-node.ts';
import { outcomes } from '../../support/nodes/outcomes.ts';
import { answerOf, endpointsOf, serviceOf } from '../../support/nodes/tcp-and-udp.ts';
import { untilHolds } from '../../support/until.ts';

const CLUSTER_IPS = ['10.96.0.10', 'fd00:96::10'] as const;
const ON = {
  A: endpointsOf(['10.1.1.5', '2001:db8:1:1::5'], 'n1'),
  B: endpointsOf(['10.1.2.5', '2001:db8:1:2::5'], 'n2'),
} as const;
/** Served by DNAT, which comes after the choice of the device and routes again. */
const SERVED = {
  none: 'insists on nothing',
  connected: 'IP_UNICAST_IF, connected, as systemd-resolved',
  'unicast-if': 'IP_UNICAST_IF',
  pktinfo: 'IP_PKTINFO with the device',
  source: 'IP_PKTINFO with the device and its address',
} as const;
/** DNAT keeps the device of a socket that is bound to one. */
const BOUND = { bind: 'SO_BINDTODEVICE', stream: 'SO_BINDTODEVICE, TCP' } as const;
const OPTIONS = Object.entries({ ...SERVED, ...BOUND });

/** @returns the backend as this process sees it, `A:5353 from 10.96.0.10` */
async function ask(
  { stage }: OtherNode,
  option: string,
  device: string,
  address: string,
): Promise<string> {
  const { programs, sandbox } = stage().cluster;
  const argv = [programs.link, option, device, address, option === 'stream' ? '80' : '53'];
  const [program = '', ...args] = insideSandbox(sandbox('n1'), argv);
  const { code, stdout, stderr } = await run(program, args);
  if (code !== 0) return `failed: ${stderr}`;
  const [backend = '', ...from] = stdout.trim().split(' ');
  return [nameOf(backend), ...from].join(' ');
}

const expectedOf = (backend: 'A' | 'B', option: string, address: string): string =>
  `${answerOf(backend, address, option === 'stream' ? 'TCP' : 'UDP')} from ${address}`;

onEachProxy('link-dns', {}, (node) => {
  for (const backend of ['A', 'B'] as const) {
    describe(`backend ${backend}, by eth0`, () => {
      beforeAll(() => node.serve([serviceOf('Cluster'), ...ON[backend]]));

      test.each(OPTIONS)('%s: %s', async (option, name) => {
        const isLost = backend === 'A' && option in BOUND;
        const before = await outcomes(node, 'SENT_ON');
        for (const address of CLUSTER_IPS) {
          const expected = isLost ? 'silent' : expectedOf(backend, option, address);
          const where = backend === 'A' ? 'a pod of the node' : 'of another node, behind eth0';
          await node.sees(`${name}: eth0, ${address}, backend ${where}`, expected, () =>
            ask(node, option, 'eth0', address),
          );
        }
        const isSentOn = option === 'connected' && backend === 'A' && node.proxy === 'eBPF';
        if (option in SERVED && (isSentOn || backend === 'B' || option === 'none')) {
          expect((await outcomes(node, 'SENT_ON')) > before).toBe(isSentOn);
        }
      });
    });
  }

  test('the way to the backend changes', async () => {
    const { cluster, ip } = node.stage();
    const [address] = CLUSTER_IPS;
    const expected = expectedOf('B', 'connected', address);
    const askB = (): Promise<string> => ask(node, 'connected', 'eth0', address);
    await node.serve([serviceOf('Cluster'), ...ON.B]);
    await node.sees('connected, eth0, backend behind eth0', expected, askB);
    await ip('n1', [
      `link add eth2 type veth peer name eth2 netns ${cluster.prefix}-n2`,
      'addr add 192.168.9.1/24 dev eth2',
      'link set eth2 up',
    ]);
    await ip('n2', ['addr add 192.168.9.2/24 dev eth2', 'link set eth2 up']);
    await ip('n1', ['route replace 10.1.2.0/24 via 192.168.9.2']);
    await ip('wire', ['route del 10.1.2.0/24']);
    await node.sees('the same, once it is behind eth2', expected, askB);
    await ip('wire', ['route add 10.1.2.0/24 via 192.0.2.12']);
    await ip('n1', ['link del eth2', 'route add 10.1.2.0/24 via 192.0.2.12']);
  });

  test('a mark of the packet decides its route, as of a VPN between nodes', async () => {
    const { cluster, ip } = node.stage();
    const [address] = CLUSTER_IPS;
    await node.serve([serviceOf('Cluster'), ...ON.B]);
    await ip('n1', [
      `link add eth2 type veth peer name eth2 netns ${cluster.prefix}-n2`,
      'addr add 192.168.9.1/24 dev eth2',
      'link set eth2 up',
      'route add 10.1.2.0/24 via 192.168.9.2 table 9',
    ]);
    await ip('n2', ['addr add 192.168.9.2/24 dev eth2', 'link set eth2 up']);
    await node.run('n1', ['ip', 'rule', 'add', 'fwmark', '7/0xff', 'lookup', '9']);
    await node.nft(
      'n1',
      'table inet marks { chain output { type route hook output priority mangle; udp dport { 53, 5353 } meta mark set 7; }; }',
    );
    await node.nft(
      'n2',
      'table inet marks { chain in { type filter hook prerouting priority raw; iifname "eth0" udp dport 5353 drop; }; }',
    );
    if (node.proxy === 'eBPF') {
      await untilHolds(async () => {
        const { stdout } = await node.fairlead('n1', 'status', '-o', 'wide');
        expect(stdout).toMatch(/eth2 +\S+ +\S+ +attached/);
      });
    }
    const before = await outcomes(node, 'SENT_ON');
    const expected = expectedOf('B', 'none', address);
    await node.sees('insists on nothing, a mark leads to B by eth2', expected, () =>
      ask(node, 'none', 'eth0', address),
    );
    expect(await outcomes(node, 'SENT_ON')).toBe(before);
    await node.nft('n1', 'delete table inet marks');
    await node.run('n1', ['ip', 'rule', 'del', 'fwmark', '7/0xff', 'lookup', '9']);
    await node.nft('n2', 'delete table inet marks');
    await ip('n1', ['link del eth2']);
  });

  test('a link without stations, as that of a VPN', async () => {
    await node.serve([serviceOf('Cluster'), ...ON.A]);
    const tun = ['tuntap add tun9 mode tun', 'addr add 10.99.0.2/24 dev tun9', 'link set tun9 up'];
    await node.stage().ip('n1', tun);
    for (const option of ['connected', 'pktinfo']) {
      const expected = expectedOf('A', option, CLUSTER_IPS[0]);
      await node.sees(`${option} by a VPN's device, backend a pod of the node`, expected, () =>
        ask(node, option, 'tun9', CLUSTER_IPS[0]),
      );
    }
  });
});

onEachProxy('link-dns', { network: 'vxlan' }, (node) => {
  // As any network below an overlay: nobody there knows pods.
  beforeAll(() =>
    node.stage().ip('wire', ['route del 10.1.2.0/24', 'route del 2001:db8:1:2::/64']),
  );

  for (const backend of ['A', 'B'] as const) {
    test(`pods on a bridge, and of other nodes by an overlay: backend ${backend}`, async () => {
      await node.serve([serviceOf('Cluster'), ...ON[backend]]);
      for (const [option, name] of Object.entries(SERVED)) {
        for (const address of CLUSTER_IPS) {
          const where = backend === 'A' ? 'on a bridge' : 'behind VXLAN';
          const expected = expectedOf(backend, option, address);
          await node.sees(`${name}: eth0, ${address}, backend ${where}`, expected, () =>
            ask(node, option, 'eth0', address),
          );
        }
      }
    });
  }
});
