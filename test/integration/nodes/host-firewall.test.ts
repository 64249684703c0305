// SPDX-License-Identifier: Apache-2.0
// A firewall of the node that closes NodePorts before addresses are translated: Calico's preDNAT policies, hand-written rules
// in raw or mangle, a table of nftables. A port that it closes stays closed with every proxy, and an open one works.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Status } from '../../../src/observe/status.ts';
import type { ProbeTarget } from '../../support/fixture/programs/probe.ts';
import { type OtherNode, onEachProxy } from '../../support/nodes/other-node.ts';
import { untilHolds } from '../../support/until.ts';

const at = (port: number): ProbeTarget => ({ protocol: 'TCP', address: '192.0.2.11', port });
const CLOSED = at(30_080);
const SVC: ProbeTarget = { protocol: 'TCP', address: '10.96.0.10', port: 80 };
const QUICK = { timeoutMs: 2_000 } as const;

interface Firewall {
  readonly add: (node: OtherNode) => Promise<unknown>;
  readonly remove: (node: OtherNode) => Promise<unknown>;
}

const iptables = (tool: string, table: string, rule: readonly string[]): Firewall => ({
  add: ({ run }) => run('n1', [tool, '-w', '-t', table, '-A', 'PREROUTING', ...rule]),
  remove: ({ run }) => run('n1', [tool, '-w', '-t', table, '-D', 'PREROUTING', ...rule]),
});
const nftables = (table: string, chains: string): Firewall => ({
  add: ({ nft }) => nft('n1', `table ${table} {\n${chains}\n}`),
  remove: ({ run }) => run('n1', ['nft', 'delete', 'table', ...table.split(' ')]),
});
const DROP_PORT = ['-p', 'tcp', '--dport', '30080', '-j', 'DROP'];

const FIREWALLS: Readonly<Record<string, Firewall>> = {
  'iptables-nft, raw': iptables('iptables-nft', 'raw', DROP_PORT),
  'iptables-legacy, mangle': iptables('iptables-legacy', 'mangle', DROP_PORT),
  'a chain that is jumped to': {
    add: ({ rules }) =>
      rules('n1', 'iptables-nft', [
        '*raw',
        ':HOST - [0:0]',
        '-A PREROUTING -m addrtype --dst-type LOCAL -j HOST',
        '-A HOST -p tcp -m multiport --dports 30080,30443 -j DROP',
        'COMMIT',
      ]),
    remove: ({ run }) =>
      run('n1', [
        'sh',
        '-c',
        'iptables-nft -t raw -F PREROUTING; iptables-nft -t raw -F HOST; iptables-nft -t raw -X HOST',
      ]),
  },
  'all ports but one': iptables('iptables-nft', 'raw', [
    ...['-d', '192.0.2.11', '-p', 'tcp', '--syn', '!', '--dport', '30081', '-j', 'DROP'],
  ]),
  'a set of nftables': nftables(
    'inet site',
    `set closed { type inet_service; elements = { 30080 }; }
     chain early { type filter hook prerouting priority -300; policy accept; tcp dport @closed drop; }`,
  ),
  'nftables, a table with a name of iptables': nftables(
    'ip raw',
    'chain early { type filter hook prerouting priority -310; tcp dport 30080 drop; }',
  ),
  'nftables, a set in a chain with a name of iptables': nftables(
    'ip raw',
    `chain PREROUTING {
       type filter hook prerouting priority -300; iifname { "lo", "docker0" } accept; tcp dport 30080 drop;
     }`,
  ),
  'nftables, at a device': nftables(
    'inet site',
    'chain uplink { type filter hook ingress device "eth0" priority 0; tcp dport 30080 drop; }',
  ),
  'nftables, of the type nat': nftables(
    'inet site',
    'chain early { type nat hook prerouting priority -110; tcp dport 30080 drop; }',
  ),
};

const statusOf = async (node: OtherNode): Promise<Status> =>
  JSON.parse((await node.fairlead('n1', 'status', '-o', 'json')).stdout) as Status;

describe.each(Object.entries(FIREWALLS))('%s', (kind, { add, remove }) => {
  onEachProxy('host-firewall', { flags: ['--iptables-sync-period', '1s'], on: ['n1'] }, (node) => {
    beforeAll(async () => {
      await add(node);
      await node.serve(['node-port', 'ab']);
    });

    test('a port that it closes is closed', () =>
      node.sees(`${kind}: outside -> closed NodePort`, 'silent', () =>
        node.ask('X', CLOSED, QUICK),
      ));

    test('other ports, and sockets of the node, are served', async () => {
      await node.put({
        use: 'node-port',
        patch: {
          spec: {
            ports: [
              { name: 'http', port: 80, targetPort: 8080, protocol: 'TCP', nodePort: 30_081 },
            ],
          },
        },
      });
      await node.sees(`${kind}: outside -> open NodePort`, 'A:8080 B:8080', () =>
        node.ask('X', at(30_081), { count: 60 }),
      );
      await node.sees(`${kind}: node -> ClusterIP`, 'A:8080 B:8080', () =>
        node.ask('n1', SVC, { count: 60 }),
      );
      await node.put('node-port');
    });

    test('it goes and comes while connections live', async () => {
      await remove(node);
      await node.sees(`${kind}: outside -> NodePort, rule removed`, 'A:8080 B:8080', () =>
        node.ask('X', CLOSED, { count: 60, ...QUICK }),
      );
      if (node.proxy === 'eBPF') {
        await untilHolds(async () => expect((await statusOf(node)).fallback).toBeUndefined());
      }
      const stream = await (await node.stage().probe('X2')).open(at(30_080));
      await add(node);
      await node.sees(`${kind}: outside -> NodePort, rule added again`, 'silent', () =>
        node.ask('X', CLOSED, QUICK),
      );
      if (node.proxy === 'eBPF') {
        await untilHolds(async () =>
          expect((await statusOf(node)).fallback?.reason).toMatch(
            /before the translation of addresses/,
          ),
        );
      }
      await remove(node);
      await untilHolds(async () =>
        expect(Object.keys((await stream.talk(2_000)).counts)[0]).toMatch(/>/),
      );
      await stream.close();
    });

    afterAll(async () => remove(node).catch(() => undefined));
  });
});

describe('a Service that comes after the firewall', () => {
  onEachProxy('host-firewall', { on: ['n1'] }, (node) => {
    test('a port that is closed already is closed from its first moment', async () => {
      await FIREWALLS['iptables-nft, raw']!.add(node);
      const ports = [
        { name: 'http', port: 80, targetPort: 8080, protocol: 'TCP', nodePort: 30_081 },
      ];
      await node.serve([{ use: 'node-port', patch: { spec: { ports } } }, 'ab']);
      await node.sees('later Service: outside -> open NodePort', 'A:8080 B:8080', () =>
        node.ask('X', at(30_081), { count: 60 }),
      );
      let isOver = false;
      const attempts = (async () => {
        const seen = new Set<string>();
        while (!isOver) seen.add(await node.ask('X', CLOSED, { count: 20, timeoutMs: 300 }));
        return [...seen];
      })();
      try {
        await node.put('node-port');
        await node.sees('later Service: outside -> closed NodePort', 'silent', () =>
          node.ask('X', CLOSED, QUICK),
        );
        await node.sees('later Service: node -> ClusterIP', 'A:8080 B:8080', () =>
          node.ask('n1', SVC, { count: 60 }),
        );
      } finally {
        isOver = true;
      }
      expect(await attempts).toEqual(['silent']);
    });
  });
});

describe('settings', () => {
  onEachProxy(
    'host-firewall',
    { proxies: ['eBPF'], flags: ['--host-firewall=ignore'], on: ['n1'] },
    (node) => {
      test('--host-firewall=ignore: eBPF serves packets all the same', async () => {
        await FIREWALLS['iptables-nft, raw']!.add(node);
        await node.serve(['node-port', 'ab']);
        await node.sees('--host-firewall=ignore: outside -> closed NodePort', 'A:8080 B:8080', () =>
          node.ask('X', CLOSED, { count: 60 }),
        );
      });
    },
  );

  onEachProxy(
    'host-firewall',
    { proxies: ['eBPF'], flags: ['--engine', 'bpf'], on: ['n1'] },
    (node) => {
      test('--engine bpf: status says which rule does not match any more', async () => {
        await FIREWALLS['iptables-nft, raw']!.add(node);
        await node.serve(['node-port', 'ab']);
        const { problems } = await statusOf(node);
        expect(problems.map(({ reason }) => reason).join()).toContain('--dport 30080 -j DROP');
        expect((await node.fairlead('n1', 'status')).stdout).toContain('--dport 30080 -j DROP');
      });
    },
  );
});
