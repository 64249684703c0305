// SPDX-License-Identifier: Apache-2.0
// A firewall of the node goes while one Service cannot be programmed, and while Services change: packets come back to eBPF
// all the same. Rules that nobody writes any more would serve former endpoints, or nothing.
import { beforeAll, expect, test } from 'vitest';
import type { Status } from '../../../src/observe/status.ts';
import type { ProbeTarget } from '../../support/fixture/programs/probe.ts';
import { type OtherNode, onEachProxy } from '../../support/nodes/other-node.ts';
import { AT_ONCE_MS, untilHolds } from '../../support/until.ts';

const at = (port: number): ProbeTarget => ({ protocol: 'TCP', address: '192.0.2.11', port });
const [OPEN, CLOSED] = [at(30_081), at(30_080)];
const port = { name: 'http', port: 80, targetPort: 8080, protocol: 'TCP' };
const SERVICE = { use: 'node-port', patch: { spec: { ports: [{ ...port, nodePort: 30_081 }] } } };
const closed = (change: '-A' | '-D', { run }: OtherNode): Promise<string> =>
  run('n1', [
    ...['iptables-nft', '-w', '-t', 'raw', change, 'PREROUTING', '-p', 'tcp'],
    ...['--dport', String(CLOSED.port), '-j', 'DROP'],
  ]);
const CLOSED_SERVICE = {
  use: 'node-port',
  patch: {
    metadata: { name: 'closed' },
    spec: {
      ...{ clusterIP: '10.96.0.11', clusterIPs: ['10.96.0.11'] },
      ports: [{ ...port, nodePort: CLOSED.port }],
    },
  },
};

/** More endpoints than --map-size has room for. */
const LARGE = [
  {
    use: 'node-port',
    patch: {
      metadata: { name: 'large' },
      spec: {
        ...{ clusterIP: '10.96.0.12', clusterIPs: ['10.96.0.12'] },
        ports: [{ ...port, nodePort: 30_082 }],
      },
    },
  },
  {
    use: 'ab',
    patch: {
      metadata: { name: 'large-1', labels: { 'kubernetes.io/service-name': 'large' } },
      endpoints: Array.from({ length: 200 }, (_, index) => ({
        ...{ addresses: [`10.1.9.${index + 1}`], conditions: { ready: true } },
      })),
    },
  },
];

/** Behind n2, so that the questions of clients outside are masqueraded. */
const DNS = [
  {
    use: 'node-port',
    patch: {
      metadata: { name: 'dns' },
      spec: {
        ...{ clusterIP: '10.96.0.13', clusterIPs: ['10.96.0.13'] },
        ports: [{ name: 'dns', port: 53, targetPort: 5353, protocol: 'UDP', nodePort: 30_053 }],
      },
    },
  },
  {
    use: 'a',
    patch: {
      metadata: { name: 'dns-1', labels: { 'kubernetes.io/service-name': 'dns' } },
      ports: [{ name: 'dns', port: 5353, protocol: 'UDP' }],
      endpoints: [{ addresses: ['10.1.2.5'], conditions: { ready: true }, nodeName: 'n2' }],
    },
  },
];

const statusOf = async (node: OtherNode): Promise<Status> =>
  JSON.parse((await node.fairlead('n1', 'status', '-o', 'json')).stdout) as Status;

const FLAGS = ['--iptables-sync-period', '1s', '--map-size', 'backends=64'];
onEachProxy('host-firewall', { proxies: ['eBPF'], flags: FLAGS, on: ['n1'] }, (node) => {
  beforeAll(() => node.serve([SERVICE, 'ab', CLOSED_SERVICE, ...LARGE, ...DNS]));

  const answers = (expected: string): Promise<void> =>
    untilHolds(async () => expect(await node.ask('X', OPEN, { count: 60 })).toBe(expected));

  test('endpoints that change afterwards are those of packets', async () => {
    const { sync } = await statusOf(node);
    expect(sync.failed.map(({ service }) => service)).toContain('default/large');
    await closed('-A', node);
    await untilHolds(async () => expect((await statusOf(node)).fallback).toBeDefined());
    await answers('A:8080 B:8080');
    await closed('-D', node);
    await untilHolds(async () => expect((await statusOf(node)).fallback).toBeUndefined());
    const [b] = [{ addresses: ['10.1.2.5'], conditions: { ready: true }, nodeName: 'n2' }];
    await node.put({ use: 'ab', patch: { endpoints: [b] } });
    await answers('B:8080');
  });

  test('netfilter may give the SNAT ports of answered questions to others: eBPF knows them no more', async () => {
    const question: ProbeTarget = { protocol: 'UDP', address: '192.0.2.11', port: 30_053 };
    const questions = async (): Promise<number> => {
      const { stdout } = await node.fairlead('n1', 'connections', '-o', 'json');
      const { items } = JSON.parse(stdout) as { items: readonly { name: string }[] };
      return items.filter(({ name }) => name === 'dns').length;
    };
    expect(await node.ask('X', question, { count: 20 })).toBe('B:5353');
    expect(await questions()).toBe(20);
    await closed('-A', node);
    await untilHolds(async () => expect((await statusOf(node)).fallback).toBeDefined());
    await untilHolds(async () => expect(await questions()).toBe(0), AT_ONCE_MS);
    expect(await node.ask('X', question, { count: 20 })).toBe('B:5353');
    await closed('-D', node);
    await untilHolds(async () => expect((await statusOf(node)).fallback).toBeUndefined());
  });
});
