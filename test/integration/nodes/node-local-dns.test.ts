// SPDX-License-Identifier: Apache-2.0
// NodeLocal DNSCache as it is shipped: a process of the node that listens at the ClusterIP of the cluster's DNS, which the
// node has as an address, with NOTRACK rules that keep kube-proxy from translating what is for it. This kernel has no
// dummy device: the address is one of lo.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { LineProgram } from '../../../tools/lab/lines.ts';
import { textOf } from '../../support/fixture/cases/case.ts';
import { type ProbeTarget, startProbe, startServer } from '../../support/fixture/programs/probe.ts';
import { type OtherNode, onEachProxy } from '../../support/nodes/other-node.ts';
import { isKubeProxy } from '../../support/nodes/proxies.ts';
import { untilHolds } from '../../support/until.ts';

const DNS = { IPv4: '10.96.0.10', IPv6: 'fd00:96::10' } as const;
const FAMILIES = ['IPv4', 'IPv6'] as const;
const PROTOCOLS = ['UDP', 'TCP'] as const;
type Family = (typeof FAMILIES)[number];

const PORTS = [
  { name: 'dns', port: 53, protocol: 'UDP' },
  { name: 'dns-tcp', port: 53, protocol: 'TCP' },
  { name: 'metrics', port: 9153, targetPort: 9090, protocol: 'TCP' },
];
const KUBE_DNS = { use: 'dual', patch: { spec: { ports: PORTS } } } as const;
/** As the cache's manifest makes it: what it asks itself, so that its questions do not come back to it. */
const UPSTREAM = {
  use: 'dual',
  patch: {
    metadata: { name: 'upstream' },
    spec: { clusterIP: '10.96.0.11', clusterIPs: ['10.96.0.11', 'fd00:96::11'], ports: PORTS },
  },
} as const;

const backend = (address: string) => ({
  patch: {
    ports: PORTS.map(({ name, port, targetPort = port, protocol }) => ({
      ...{ name, port: targetPort, protocol },
    })),
    endpoints: [{ addresses: [address], conditions: { ready: true }, nodeName: 'n1' }],
  },
});
const A = { use: 'a', ...backend('10.1.1.5') };
const A6 = { use: 'ab6', ...backend('2001:db8:1:1::5') };
const UPSTREAM_A = {
  use: 'a',
  patch: {
    ...backend('10.1.1.5').patch,
    metadata: { name: 'upstream-a', labels: { 'kubernetes.io/service-name': 'upstream' } },
  },
};

const dns = (protocol: 'UDP' | 'TCP', family: Family, port = 53): ProbeTarget => ({
  ...{ protocol, address: DNS[family], port },
});
const CACHE = { IPv4: 'svc:53', IPv6: 'svc6:53' } as const;
const POD = { IPv4: 'A:53', IPv6: 'A6:53' } as const;

/** As node-cache writes them; `-I` and `-D` for its start and its end. */
const rulesOf = (change: '-I' | '-D', address: string): readonly string[] => [
  '*raw',
  ...PROTOCOLS.map((p) => p.toLowerCase()).flatMap((protocol) => [
    `${change} PREROUTING -d ${address} -p ${protocol} --dport 53 -m comment --comment "NodeLocal DNS Cache: skip conntrack" -j NOTRACK`,
    `${change} OUTPUT -s ${address} -p ${protocol} --sport 53 -m comment --comment "NodeLocal DNS Cache: skip conntrack" -j NOTRACK`,
    `${change} OUTPUT -d ${address} -p ${protocol} --dport 53 -m comment --comment "NodeLocal DNS Cache: skip conntrack" -j NOTRACK`,
  ]),
  'COMMIT',
  '*filter',
  ...PROTOCOLS.map((p) => p.toLowerCase()).flatMap((protocol) => [
    `${change} INPUT -d ${address} -p ${protocol} --dport 53 -m comment --comment "NodeLocal DNS Cache: allow DNS traffic" -j ACCEPT`,
    `${change} OUTPUT -s ${address} -p ${protocol} --sport 53 -m comment --comment "NodeLocal DNS Cache: allow DNS traffic" -j ACCEPT`,
  ]),
  'COMMIT',
];

async function changeRules(node: OtherNode, change: '-I' | '-D'): Promise<void> {
  await node.rules('n1', 'iptables-nft', rulesOf(change, DNS.IPv4));
  await node.rules('n1', 'ip6tables-nft', rulesOf(change, DNS.IPv6));
}

/** Without `nodad` nobody can bind to it before a worker of the kernel has looked at it. */
const changeAddresses = ({ stage }: OtherNode, change: 'add' | 'del'): Promise<void> =>
  stage().ip('n1', [
    `addr ${change} ${DNS.IPv4}/32 dev lo`,
    `addr ${change} ${DNS.IPv6}/128 dev lo ${change === 'add' ? 'nodad' : ''}`,
  ]);

const startCache = ({ stage }: OtherNode): Promise<LineProgram> =>
  startServer(stage().cluster.sandbox('n1'), stage().cluster.programs, Object.values(DNS), [53]);

/** A pod whose sockets no hook sees. */
async function askBypassed({ stage }: OtherNode, target: ProbeTarget): Promise<string> {
  const probe = await startProbe(stage().cluster.uncovered('p1'), stage().cluster.programs);
  try {
    return textOf(await probe.burst(target, QUICK));
  } finally {
    await probe.stop();
  }
}

const QUICK = { timeoutMs: 2_000 } as const;

onEachProxy('node-local-dns', {}, (node) => {
  let cache: LineProgram | undefined;
  const itself = (client: string, target: ProbeTarget) => () => node.ask(client, target, QUICK);
  const isFairlead = !isKubeProxy(node.proxy);

  beforeAll(() => node.serve([KUBE_DNS, UPSTREAM, A, A6, UPSTREAM_A]));
  afterAll(() => cache?.stop());

  test('the node has the address, and nobody listens: the Service serves', async () => {
    await changeAddresses(node, 'add');
    await node.sees(
      'pod -> DNS, the node has its address',
      POD.IPv4,
      itself('p1', dns('UDP', 'IPv4')),
    );
    await node.sees(
      'node -> DNS, the node has its address',
      POD.IPv4,
      itself('n1', dns('TCP', 'IPv4')),
    );
  });

  describe('with the cache and its rules', () => {
    beforeAll(async () => {
      await changeRules(node, '-I');
      cache = await startCache(node);
    });

    for (const family of FAMILIES) {
      for (const protocol of PROTOCOLS) {
        const how = `${protocol}, ${family}`;
        test(`the cache gets every question: ${how}`, async () => {
          const target = dns(protocol, family);
          await node.sees(`pod -> DNS, ${how}`, CACHE[family], itself('p1', target));
          await node.sees(`node -> DNS, ${how}`, CACHE[family], itself('n1', target));
          await node.sees(`bypassed pod -> DNS, ${how}`, CACHE[family], () =>
            askBypassed(node, target),
          );
        });
      }
    }

    test('a pod of another node keeps the Service', () =>
      node.sees('pod of another node -> DNS', POD.IPv4, itself('p2', dns('UDP', 'IPv4'))));

    test("the Service's other port is served as before", () =>
      node.sees('pod -> other port of DNS', 'A:9090', itself('p1', dns('TCP', 'IPv4', 9153))));

    test('what the cache asks itself reaches the pods', () =>
      node.sees(
        'node -> upstream',
        'A:53',
        itself('n1', { ...dns('UDP', 'IPv4'), address: '10.96.0.11' }),
      ));

    test.runIf(isFairlead)('every view tells why', async () => {
      await untilHolds(async () => {
        const { stdout, code } = await node.fairlead('n1', 'status');
        expect(stdout).toMatch(/^Listeners: .*10\.96\.0\.10:53\/UDP of default\/web/m);
        expect(code).toBe(0);
      });
      const services = await node.fairlead('n1', 'services', '-o', 'json');
      const { items } = JSON.parse(services.stdout);
      const rows = items.filter((row: { kernelState: string }) => row.kernelState !== 'ok');
      expect(rows.map((row: { frontend: string }) => row.frontend).sort()).toEqual([
        '10.96.0.10:53/TCP',
        '10.96.0.10:53/UDP',
        '[fd00:96::10]:53/TCP',
        '[fd00:96::10]:53/UDP',
      ]);
      expect(rows[0].kernelState).toBe('node-process');
      const explained = await node.fairlead(
        'n1',
        'explain',
        '--from=10.1.1.9',
        `--to=10.96.0.10:53/udp`,
      );
      expect(explained.stdout).toContain('a process of the node listens');
    });

    test('the cache dies and leaves its rules: the Service serves, where no conntrack is needed', async () => {
      await cache?.stop();
      const needsConntrack = { all: 'refused', eBPF: POD.IPv4 } as const;
      await node.sees(
        'pod -> DNS, the cache has died',
        needsConntrack,
        itself('p1', dns('UDP', 'IPv4')),
      );
      await node.sees(
        'node -> DNS, the cache has died',
        needsConntrack,
        itself('n1', dns('TCP', 'IPv4')),
      );
    });

    test('it comes back', async () => {
      cache = await startCache(node);
      await node.sees(
        'pod -> DNS, the cache is back',
        CACHE.IPv4,
        itself('p1', dns('UDP', 'IPv4')),
      );
    });

    test('it ends and takes its rules and addresses away', async () => {
      await cache?.stop();
      await changeRules(node, '-D');
      await changeAddresses(node, 'del');
      await node.sees(
        'pod -> DNS, the cache has ended',
        POD.IPv4,
        itself('p1', dns('UDP', 'IPv4')),
      );
      await node.sees(
        'node -> DNS, the cache has ended',
        POD.IPv4,
        itself('n1', dns('UDP', 'IPv4')),
      );
    });
  });

  test('without its rules kube-proxy translates what is for the cache', async () => {
    await changeAddresses(node, 'add');
    cache = await startCache(node);
    const answer = { all: POD.IPv4, eBPF: CACHE.IPv4, rules: CACHE.IPv4 } as const;
    await node.sees('pod -> DNS, cache without rules', answer, itself('p1', dns('UDP', 'IPv4')));
    await node.sees('node -> DNS, cache without rules', answer, itself('n1', dns('TCP', 'IPv4')));
  });
});
