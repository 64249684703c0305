// SPDX-License-Identifier: Apache-2.0
// Meshes (Istio, Linkerd, Kuma) and other redirects inside pods: the proxy of a pod asks for the original destination of what was
// redirected to it (SO_ORIGINAL_DST), which must be the Service that the program meant, not an endpoint.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { run } from '../../../src/sys/exec.ts';
import type { LineProgram } from '../../../tools/lab/lines.ts';
import { insideSandbox } from '../../../tools/lab/sandbox.ts';
import type { ProbeTarget } from '../../support/fixture/programs/probe.ts';
import {
  ISTIO,
  ISTIO_PORT,
  ISTIO_TPROXY,
  LINKERD,
  LINKERD_PORT,
  NATIVE,
  NATIVE_DNAT,
  startMeshProxy,
} from '../../support/nodes/meshes.ts';
import { type OtherNode, onEachProxy } from '../../support/nodes/other-node.ts';
import { untilHolds } from '../../support/until.ts';

const SVC: ProbeTarget = { protocol: 'TCP', address: '10.96.0.10', port: 80 };
const SVC6: ProbeTarget = { ...SVC, address: 'fd00:96::10' };
const QUICK = { timeoutMs: 2_000 } as const;
const SERVICE = {
  use: 'dual',
  patch: { spec: { ports: [{ name: 'http', port: 80, targetPort: 8080, protocol: 'TCP' }] } },
};
const MESH = 'svc:80';
const POD = 'A:8080';

interface Row {
  readonly kind: string;
  readonly state: string;
  readonly reason: string;
  readonly path: string;
  readonly addresses: readonly string[];
}

/** The network namespaces of a node that are served as packets. */
async function listed({ fairlead }: OtherNode, short: string): Promise<readonly Row[]> {
  const { stdout, stderr } = await fairlead(short, 'bypass', 'list', '-o', 'json');
  if (stdout === '') throw new Error(stderr);
  return JSON.parse(stdout).items;
}

/** Of the counter for calls that were left to packets. */
async function skipped({ fairlead }: OtherNode, short: string): Promise<number> {
  const { stdout } = await fairlead(short, 'status', '-o', 'json');
  return JSON.parse(stdout).reasons.SKIPPED_NETNS;
}

/** How a pod is served that has not been looked at. */
async function scopeOf({ fairlead }: OtherNode, short: string): Promise<string> {
  const { stdout } = await fairlead(short, 'status', '-o', 'json');
  return JSON.parse(stdout).scope.unlooked;
}

/** What a process of the mesh's own user gets, whose connections the rules leave alone. */
async function askAsProxy({ stage }: OtherNode, pod: string): Promise<string> {
  const script = 'exec 3<>/dev/tcp/10.96.0.10/80; head -n 1 <&3';
  const user = ['setpriv', '--reuid=1337', '--clear-groups', '--', 'bash', '-c', script];
  const [program = '', ...args] = insideSandbox(stage().cluster.sandbox(pod), user);
  const { stdout, stderr } = await run(program, args);
  return stdout.split('>')[0] || stderr;
}

onEachProxy('mesh', {}, (node) => {
  const proxies: LineProgram[] = [];
  const isEbpf = node.proxy === 'eBPF';
  const asking = (client: string, target: ProbeTarget) => () => node.ask(client, target, QUICK);

  beforeAll(async () => {
    await node.rules('p1', 'iptables-nft', ISTIO);
    await node.rules('p1', 'ip6tables-nft', ISTIO);
    await node.serve([SERVICE, 'a', 'ab6']);
    for (const pod of ['p1', 'p2']) {
      proxies.push(await startMeshProxy(node, pod, ISTIO_PORT));
      proxies.push(await startMeshProxy(node, pod, LINKERD_PORT));
    }
  });
  afterAll(() => Promise.all(proxies.map((one) => one.stop())));

  test("Istio: the pod's first connection is to the Service", async () => {
    if (isEbpf) await untilHolds(async () => expect(await scopeOf(node, 'n1')).toBe('packets'));
    expect(await node.ask('p1', SVC, QUICK)).toBe(MESH);
    await node.sees('pod with Istio -> ClusterIP', MESH, asking('p1', SVC));
    await node.sees('pod with Istio -> ClusterIP, IPv6', 'svc6:80', asking('p1', SVC6));
  });

  test('what its proxy sends itself reaches an endpoint', () =>
    node.sees("Istio's proxy -> ClusterIP", '10.1.1.5:8080', () => askAsProxy(node, 'p1')));

  test('a pod without a mesh is served', () =>
    node.sees('pod without a mesh -> ClusterIP', POD, asking('p2', SVC)));

  test.runIf(isEbpf)(
    'at its socket, and `bypass list` and `status` say which is which',
    async () => {
      await untilHolds(async () => {
        await node.ask('p2', SVC);
        const before = await skipped(node, 'n2');
        await node.ask('p2', SVC, { count: 20 });
        expect(await skipped(node, 'n2')).toBe(before);
      });
      expect(await listed(node, 'n2')).toEqual([]);
      expect(await listed(node, 'n1')).toMatchObject([
        {
          kind: 'network namespace',
          state: 'as packets',
          reason: 'its rules redirect connections (REDIRECT), as those of Istio',
          path: node.stage().cluster.sandbox('p1').cgroup,
          addresses: ['10.1.1.9', '2001:db8:1:1::9'],
        },
      ]);
      const { stdout } = await node.fairlead('n1', 'status');
      expect(stdout).toMatch(
        /^Sockets: {4}auto: 1 of \d+ network namespaces redirect connections/m,
      );
    },
  );

  test('Linkerd, by iptables-legacy, after the first connection', async () => {
    await node.rules('p2', 'iptables-legacy', LINKERD);
    await node.sees('pod with Linkerd -> ClusterIP', MESH, asking('p2', SVC));
    if (!isEbpf) return;
    const [row] = await listed(node, 'n2');
    expect(row?.reason).toBe('its rules redirect connections (REDIRECT), as those of Linkerd');
  });

  test('the mesh goes: the pod is served at its socket again', async () => {
    await node.run('p2', ['iptables-legacy', '-t', 'nat', '-F']);
    await node.sees('pod without its mesh -> ClusterIP', POD, asking('p2', SVC));
    if (isEbpf) await untilHolds(async () => expect(await listed(node, 'n2')).toEqual([]));
  });

  test.each([
    ['redirect', NATIVE, 'redirecting', 'inet', 'REDIRECT'],
    ['dnat to loopback', NATIVE_DNAT, 'redirecting4', 'ip', 'DNAT'],
  ])('rules of nft itself: %s', async (what, rules, table, family, kind) => {
    await node.run('p2', ['sysctl', '-qw', 'net.ipv4.conf.all.route_localnet=1']);
    await node.nft('p2', rules);
    await node.sees(`pod with nft ${what} -> ClusterIP`, MESH, asking('p2', SVC));
    if (isEbpf) {
      await untilHolds(async () => {
        const [row] = await listed(node, 'n2');
        expect(row?.reason).toBe(`its rules redirect connections (${kind})`);
      });
    }
    await node.run('p2', ['nft', 'delete', 'table', family, table]);
    await node.sees('pod without its redirect -> ClusterIP', POD, asking('p2', SVC));
  });

  test('Istio with TPROXY', async () => {
    await node.rules('p1', 'iptables-nft', ISTIO_TPROXY);
    await node.sees('pod with Istio, TPROXY -> ClusterIP', MESH, asking('p1', SVC));
    if (!isEbpf) return;
    await untilHolds(async () => {
      const [row] = await listed(node, 'n1');
      expect(row?.reason).toBe(
        'its rules redirect connections (REDIRECT, TPROXY), as those of Istio',
      );
    });
  });

  test.runIf(node.proxy === 'rules')(
    'rules need nothing: no namespace is treated apart',
    async () => {
      const { stdout } = await node.fairlead('n1', 'status');
      expect(stdout).not.toContain('Sockets:');
    },
  );
});

const onlyEbpf = (scope: string, devices: string, tests: (node: OtherNode) => void): void =>
  onEachProxy(
    'mesh',
    {
      proxies: ['eBPF'],
      flags: ['--socket-scope', scope, '--devices', devices],
    },
    (node) => {
      let proxy: LineProgram | undefined;
      beforeAll(async () => {
        await node.rules('p1', 'iptables-nft', ISTIO);
        await node.serve([SERVICE, 'a', 'ab6']);
        proxy = await startMeshProxy(node, 'p1', ISTIO_PORT);
      });
      afterAll(() => proxy?.stop());
      tests(node);
    },
  );

describe('--socket-scope host', () =>
  onlyEbpf('host', 'auto', (node) => {
    test('every pod is served as packets, and processes of the node at the socket', async () => {
      await untilHolds(async () => expect(await node.ask('p1', SVC, QUICK)).toBe(MESH));
      const before = await skipped(node, 'n1');
      expect(await node.ask('n1', SVC)).toBe(POD);
      expect(await skipped(node, 'n1')).toBe(before);
      const others = await skipped(node, 'n2');
      expect(await node.ask('p2', SVC, { count: 5 })).toBe(POD);
      expect(await skipped(node, 'n2')).toBe(others + 5);
      expect(await listed(node, 'n1')).toMatchObject([
        { id: '', reason: '--socket-scope is host' },
      ]);
      const { stdout } = await node.fairlead('n1', 'status');
      expect(stdout).toMatch(/^Sockets: {4}of the node are served, and pods as packets$/m);
    });
  }));

describe('--socket-scope pods', () =>
  onlyEbpf('pods', 'auto', (node) => {
    test('every socket is translated, also that of a pod with a mesh', async () => {
      expect(await node.ask('p1', SVC, QUICK)).toBe('A:8080');
      expect(await skipped(node, 'n1')).toBe(0);
      expect(await listed(node, 'n1')).toEqual([]);
    });
  }));

describe('--socket-scope auto, where nobody translates packets', () =>
  onlyEbpf('auto', 'none', (node) => {
    test('every socket is translated, and status says why', async () => {
      expect(await node.ask('p1', SVC, QUICK)).toBe('A:8080');
      const { stdout } = await node.fairlead('n1', 'status');
      expect(stdout).toMatch(
        /^Sockets: {4}of all pods are served, not auto: nobody translates packets/m,
      );
    });
  }));
