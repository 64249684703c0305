// SPDX-License-Identifier: Apache-2.0
// NodePorts at the loopback addresses of the node, clients that are bound to one, and a source port that a client uses for
// two Services. What eBPF does not do here docs/semantics.md says, with what to do instead.
import { beforeAll, expect, test } from 'vitest';
import type { ProbeOptions, ProbeTarget } from '../../support/fixture/programs/probe.ts';
import { onEachProxy } from '../../support/nodes/other-node.ts';
import { untilHolds } from '../../support/until.ts';

const at = (address: string): ProbeTarget => ({ protocol: 'TCP', address, port: 30_080 });
const SVC: ProbeTarget = { protocol: 'TCP', address: '10.96.0.10', port: 80 };
const OTHER: ProbeTarget = { protocol: 'TCP', address: '10.96.0.11', port: 80 };
const DUAL = {
  use: 'dual',
  patch: { spec: { type: 'NodePort', ports: [{ name: 'http', port: 80, nodePort: 30_080 }] } },
};
const OTHER_SERVICE = {
  use: 'node-port',
  patch: {
    metadata: { name: 'other' },
    spec: {
      ...{ type: 'ClusterIP', clusterIP: OTHER.address, clusterIPs: [OTHER.address] },
      ports: [{ name: 'http', port: 80, targetPort: 8080, protocol: 'TCP' }],
    },
  },
};
const OTHER_A = {
  use: 'a',
  patch: { metadata: { name: 'other-a', labels: { 'kubernetes.io/service-name': 'other' } } },
};
const QUICK = { timeoutMs: 2_000 } as const;

onEachProxy('localhost', { on: ['n1'] }, (node) => {
  beforeAll(() => node.serve([DUAL, 'a', 'ab6', OTHER_SERVICE, OTHER_A]));
  const ask = (address: string, options: ProbeOptions) => () =>
    node.ask('n1', at(address), { ...QUICK, ...options });

  test('a process of the node asks 127.0.0.1', () =>
    node.sees(
      'node -> 127.0.0.1:NodePort',
      { all: 'A:8080', 'kube-proxy nftables': 'refused' },
      ask('127.0.0.1', {}),
    ));

  test('so does one that is bound to 127.0.0.1', () =>
    node.sees(
      'node, bound to 127.0.0.1 -> 127.0.0.1:NodePort',
      { all: 'A:8080', eBPF: 'refused', 'kube-proxy nftables': 'refused' },
      ask('127.0.0.1', { source: '127.0.0.1' }),
    ));

  test('one that is bound to an address of the node asks that', () =>
    node.sees(
      'node, bound to 192.0.2.11 -> 192.0.2.11:NodePort',
      'A:8080',
      ask('192.0.2.11', { source: '192.0.2.11' }),
    ));

  test('[::1] has no NodePorts', () =>
    node.sees('node -> [::1]:NodePort', 'refused', ask('::1', {})));

  test('one source port for two Services that have the same endpoint', async () => {
    const probe = await node.stage().probe('n1');
    await untilHolds(async () => expect(await node.ask('n1', OTHER)).toBe('A:8080'));
    const first = await probe.open(SVC, { sourcePort: 40_001 });
    await node.sees(
      'node, one source port -> two Services with one endpoint',
      { all: 'A:8080', eBPF: 'EADDRNOTAVAIL' },
      () => node.ask('n1', OTHER, { ...QUICK, sourcePort: 40_001 }),
    );
    await first.close();
  });
});
