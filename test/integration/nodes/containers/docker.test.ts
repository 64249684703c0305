// SPDX-License-Identifier: Apache-2.0
// docker on a node of the cluster, with a container on its bridge: rules as docker 28 writes them. It publishes two ports of
// the container; one has the number of a NodePort, which its proxy of user space listens at, too.
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Status } from '../../../../src/observe/status.ts';
import { makeCgroup } from '../../../../src/sys/cgroup.ts';
import { addNamespaces } from '../../../../src/sys/netns.ts';
import type { LineProgram } from '../../../../tools/lab/lines.ts';
import {
  type Probe,
  type ProbeTarget,
  startProbe,
  startServer,
} from '../../../support/fixture/programs/probe.ts';
import {
  type OtherNode,
  onEachProxy,
  type RestoreTool,
} from '../../../support/nodes/other-node.ts';
import { untilHolds } from '../../../support/until.ts';

const CONTAINER = '172.17.0.2';
const at = (port: number): ProbeTarget => ({ protocol: 'TCP', address: '192.0.2.11', port });
const NODE_PORT = at(30_080);
const PUBLISHED = at(8_088);
const SVC: ProbeTarget = { protocol: 'TCP', address: '10.96.0.10', port: 80 };
const QUICK = { timeoutMs: 2_000 } as const;

const published = ({ port }: ProbeTarget): string =>
  `-A DOCKER ! -i docker0 -p tcp -m tcp --dport ${port} -j DNAT --to-destination ${CONTAINER}:80`;

const RULES = [
  '*raw',
  `-A PREROUTING -d ${CONTAINER}/32 ! -i docker0 -j DROP`,
  'COMMIT',
  '*nat',
  ':DOCKER - [0:0]',
  '-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER',
  '-A OUTPUT ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DOCKER',
  '-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE',
  published(NODE_PORT),
  published(PUBLISHED),
  'COMMIT',
  '*filter',
  ...['', '-BRIDGE', '-CT', '-FORWARD', '-INTERNAL', '-USER'].map((end) => `:DOCKER${end} - [0:0]`),
  '-A FORWARD -j DOCKER-USER',
  '-A FORWARD -j DOCKER-FORWARD',
  `-A DOCKER -d ${CONTAINER}/32 ! -i docker0 -o docker0 -p tcp -m tcp --dport 80 -j ACCEPT`,
  '-A DOCKER ! -i docker0 -o docker0 -j DROP',
  '-A DOCKER-BRIDGE -o docker0 -j DOCKER',
  '-A DOCKER-CT -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
  '-A DOCKER-FORWARD -j DOCKER-CT',
  '-A DOCKER-FORWARD -j DOCKER-INTERNAL',
  '-A DOCKER-FORWARD -j DOCKER-BRIDGE',
  '-A DOCKER-FORWARD -i docker0 -j ACCEPT',
  'COMMIT',
];

/** Both write by the same interface of the kernel, so that the order of their rules is the order of one chain. */
const toolOf = ({ proxy }: OtherNode): RestoreTool =>
  proxy === 'kube-proxy iptables' ? 'iptables-legacy' : 'iptables-nft';

/** kube-proxy accepts nothing in its nftables mode: what docker's filter drops stays dropped. */
const forwarded = { all: 'A:8080 B:8080', 'kube-proxy nftables': 'silent' } as const;

/** A container on docker0, whose processes are in a cgroup of the node. */
async function addContainer(node: OtherNode) {
  const { stage, run } = node;
  const { cluster, ip } = stage();
  const namespace = `${cluster.prefix}-docker`;
  addNamespaces([namespace]);
  await ip('n1', [
    'link add docker0 type bridge',
    'addr add 172.17.0.1/16 dev docker0',
    'link set docker0 up',
    `link add veth0 type veth peer name eth0 netns ${namespace}`,
    'link set veth0 master docker0',
    'link set veth0 up',
  ]);
  await ip('docker', [
    'link set lo up',
    `addr add ${CONTAINER}/16 dev eth0`,
    'link set eth0 up',
    'route add default via 172.17.0.1',
  ]);
  await run('n1', [toolOf(node), '-P', 'FORWARD', 'DROP']);
  const cgroup = join(cluster.cgroupOf('n1'), 'docker');
  makeCgroup(cgroup);
  return { name: 'docker', namespace, cgroup };
}

onEachProxy('docker', { flags: ['--iptables-sync-period', '1s'], on: ['n1'] }, (node) => {
  const programs: LineProgram[] = [];
  let client: Probe;

  beforeAll(async () => {
    const { cluster } = node.stage();
    await node.rules('n1', toolOf(node), RULES);
    const container = await addContainer(node);
    programs.push(await startServer(container, cluster.programs, [CONTAINER], [80]));
    // docker-proxy: a listener keeps the port.
    programs.push(
      await startServer(
        cluster.sandbox('n1'),
        cluster.programs,
        ['192.0.2.11'],
        [NODE_PORT.port, PUBLISHED.port],
      ),
    );
    client = await startProbe(container, cluster.programs);
    await node.serve(['node-port', 'ab']);
  });
  afterAll(async () => {
    await client?.stop();
    await Promise.all(programs.map((one) => one.stop()));
  });

  test('a NodePort whose number docker publishes, too', async () => {
    await node.sees('outside -> NodePort that docker publishes', forwarded, () =>
      node.ask('X', NODE_PORT, { count: 60, ...QUICK }),
    );
    await node.sees('node -> NodePort that docker publishes', 'A:8080 B:8080', () =>
      node.ask('n1', NODE_PORT, { count: 60, ...QUICK }),
    );
  });

  test("docker's other ports go to its container", () =>
    node.sees('outside -> published port', `${CONTAINER}:80`, () =>
      node.ask('X', PUBLISHED, QUICK),
    ));

  test('a container and the node reach the Service', async () => {
    await node.sees('node -> ClusterIP', 'A:8080 B:8080', () =>
      node.ask('n1', SVC, { count: 60, ...QUICK }),
    );
    await node.sees('container -> ClusterIP, as the backends see it', '192.0.2.11', async () => {
      const { counts } = await client.burst(SVC, { count: 60, ...QUICK });
      const clients = Object.keys(counts).map((text) => text.split('>')[1] ?? text);
      return [...new Set(clients)].sort().join(' ');
    });
  });

  test("nobody reaches the container's address from outside: the rule in raw", async () => {
    await node.stage().ip('X2', ['route add 172.17.0.0/16 via 192.0.2.11']);
    const target: ProbeTarget = { protocol: 'TCP', address: CONTAINER, port: 80 };
    await node.sees('outside -> address of a container', 'silent', () =>
      node.ask('X2', target, QUICK),
    );
  });

  test.runIf(node.proxy === 'eBPF')('that rule alone leaves packets to eBPF', async () => {
    const fallback = async () => {
      const { stdout } = await node.fairlead('n1', 'status', '-o', 'json');
      return (JSON.parse(stdout) as Status).fallback;
    };
    await untilHolds(async () =>
      expect((await fallback())?.reason).toContain('chain FORWARD of table filter'),
    );
    await node.run('n1', ['iptables-nft', '-P', 'FORWARD', 'ACCEPT']);
    await untilHolds(async () => expect(await fallback()).toBeUndefined());
    await node.sees('FORWARD accepts: outside -> NodePort', 'A:8080 B:8080', () =>
      node.ask('X', NODE_PORT, { count: 60, ...QUICK }),
    );
    await node.sees('FORWARD accepts: outside -> published port', `${CONTAINER}:80`, () =>
      node.ask('X', PUBLISHED, QUICK),
    );
  });
});
