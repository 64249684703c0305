// SPDX-License-Identifier: Apache-2.0
// kind: a node that is a container of docker, whose DNS server docker has put on 127.0.0.11 in the node. kind's entrypoint moves
// it to the address of the gateway, for pods, too; kindnet masquerades what leaves the cluster. Rules as these programs write them.
import { afterAll, beforeAll, test } from 'vitest';
import type { LineProgram } from '../../../../tools/lab/lines.ts';
import { type ProbeTarget, startServer } from '../../../support/fixture/programs/probe.ts';
import { onEachProxy } from '../../../support/nodes/other-node.ts';

const GATEWAY = '192.0.2.1';
const RESOLVER = '127.0.0.11';
/** As docker chooses them when the container starts. */
const PORTS = { TCP: 44_067, UDP: 49_550 } as const;
const PROTOCOLS = ['TCP', 'UDP'] as const;
const PODS = '10.1.0.0/16';

const DOCKER_DNS = [
  '*nat',
  ':DOCKER_OUTPUT - [0:0]',
  ':DOCKER_POSTROUTING - [0:0]',
  `-A PREROUTING -d ${GATEWAY}/32 -j DOCKER_OUTPUT`,
  `-A OUTPUT -d ${GATEWAY}/32 -j DOCKER_OUTPUT`,
  `-A POSTROUTING -d ${GATEWAY}/32 -j DOCKER_POSTROUTING`,
  ...PROTOCOLS.flatMap((protocol) => {
    const [name, port] = [protocol.toLowerCase(), PORTS[protocol]];
    return [
      `-A DOCKER_OUTPUT -d ${GATEWAY}/32 -p ${name} -m ${name} --dport 53 -j DNAT --to-destination ${RESOLVER}:${port}`,
      `-A DOCKER_POSTROUTING -s ${RESOLVER}/32 -p ${name} -m ${name} --sport ${port} -j SNAT --to-source ${GATEWAY}:53`,
    ];
  }),
  'COMMIT',
];

const KINDNET = `table inet kindnet-ipmasq {
  set noMasqV4 {
    type ipv4_addr
    flags interval
    auto-merge
    elements = { ${PODS} }
  }
  chain postrouting {
    type nat hook postrouting priority srcnat - 10; policy accept;
    ct state established,related accept
    fib daddr type local accept
    ip daddr @noMasqV4 accept
    masquerade
  }
}`;

const NODE_PORT: ProbeTarget = { protocol: 'TCP', address: '192.0.2.11', port: 30_080 };
const SVC: ProbeTarget = { protocol: 'TCP', address: '10.96.0.10', port: 80 };
const QUICK = { timeoutMs: 2_000 } as const;

onEachProxy('kind', {}, (node) => {
  let resolver: LineProgram;
  const asking =
    (client: string, target: ProbeTarget, count = 1) =>
    () =>
      node.ask(client, target, { count, ...QUICK });

  beforeAll(async () => {
    const { cluster } = node.stage();
    await node.rules('n1', 'iptables-nft', DOCKER_DNS);
    // kind sets it when the node starts: requests of pods are for 127.0.0.11 in the end.
    await node.run('n1', ['sysctl', '-qw', 'net.ipv4.conf.all.route_localnet=1']);
    await node.nft('n1', KINDNET);
    resolver = await startServer(
      cluster.sandbox('n1'),
      cluster.programs,
      [RESOLVER],
      Object.values(PORTS),
    );
    await node.serve(['node-port', 'ab']);
  });
  afterAll(() => resolver?.stop());

  test.each(PROTOCOLS)(
    "docker's resolver is reached, by the node and by pods: %s",
    async (protocol) => {
      const dns: ProbeTarget = { protocol, address: GATEWAY, port: 53 };
      const answer = `${RESOLVER}:${PORTS[protocol]}`;
      await node.sees(`node -> resolver of docker, ${protocol}`, answer, asking('n1', dns));
      await node.sees(`pod -> resolver of docker, ${protocol}`, answer, asking('p1', dns));
    },
  );

  test('pods, the node and clients outside are served', async () => {
    const both = 'A:8080 B:8080';
    await node.sees('pod -> ClusterIP', both, asking('p1', SVC, 60));
    await node.sees('node -> ClusterIP', both, asking('n1', SVC, 60));
    await node.sees('outside -> NodePort', both, asking('X', NODE_PORT, 60));
    await node.sees(
      'outside -> NodePort of another node',
      both,
      asking('X', { ...NODE_PORT, address: '192.0.2.12' }, 60),
    );
  });

  test("backends see a pod's own address, not the masquerade of kindnet", () =>
    node.sees('pod -> ClusterIP, as the backends see it', '10.1.1.9', async () => {
      const { counts } = await (await node.stage().probe('p1')).burst(SVC, { count: 60, ...QUICK });
      const clients = Object.keys(counts).map((text) => text.split('>')[1] ?? text);
      return [...new Set(clients)].sort().join(' ');
    }));
});
