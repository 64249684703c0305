// SPDX-License-Identifier: Apache-2.0
// Nodes whose FORWARD chain drops: docker, ufw, firewalld, a policy alone. Packets of Services pass as behind the rules of
// kube-proxy, rules that drop packets to a pod still hold, and nothing else is opened.
import { beforeAll, describe, expect, test } from 'vitest';
import type { Status } from '../../../src/observe/status.ts';
import type { ProbeTarget } from '../../support/fixture/programs/probe.ts';
import { type OtherNode, onEachProxy, type RestoreTool } from '../../support/nodes/other-node.ts';
import { PACKETS, PROXIES, type ProxyName } from '../../support/nodes/proxies.ts';
import { untilHolds } from '../../support/until.ts';

const NODE_PORT: ProbeTarget = { protocol: 'TCP', address: '192.0.2.11', port: 30_080 };
const SVC: ProbeTarget = { protocol: 'TCP', address: '10.96.0.10', port: 80 };
const POD: ProbeTarget = { protocol: 'TCP', address: '10.1.1.5', port: 8080 };
const QUICK = { timeoutMs: 2_000 } as const;

/** Of iptables-save, as these programs write them. */
const KINDS = {
  'a policy alone': ['*filter', '-P FORWARD DROP', 'COMMIT'],
  docker: [
    '*filter',
    ...['DOCKER-USER', 'DOCKER-FORWARD', 'DOCKER-CT', 'DOCKER-BRIDGE'].map(
      (name) => `:${name} - [0:0]`,
    ),
    '-A FORWARD -j DOCKER-USER',
    '-A FORWARD -j DOCKER-FORWARD',
    '-A DOCKER-FORWARD -j DOCKER-CT',
    '-A DOCKER-FORWARD -j DOCKER-BRIDGE',
    '-A DOCKER-FORWARD -i docker0 -j ACCEPT',
    '-A DOCKER-CT -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
    '-P FORWARD DROP',
    'COMMIT',
  ],
  ufw: [
    '*filter',
    ...['ufw-before-forward', 'ufw-after-forward', 'ufw-reject-forward'].map(
      (name) => `:${name} - [0:0]`,
    ),
    '-A FORWARD -j ufw-before-forward',
    '-A FORWARD -j ufw-after-forward',
    '-A FORWARD -j ufw-reject-forward',
    '-A ufw-before-forward -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
    '-A ufw-before-forward -p icmp -m icmp --icmp-type 8 -j ACCEPT',
    '-P FORWARD DROP',
    'COMMIT',
  ],
  firewalld: [
    '*filter',
    '-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
    '-A FORWARD -i lo -j ACCEPT',
    '-A FORWARD -m conntrack --ctstate INVALID -j DROP',
    '-A FORWARD -j REJECT --reject-with icmp-host-prohibited',
    'COMMIT',
  ],
} as const;

/** The interface of the kernel that the proxy uses, too: what one accepts the other may drop. */
const toolOf = ({ proxy }: OtherNode): RestoreTool =>
  proxy === 'kube-proxy iptables' ? 'iptables-legacy' : 'iptables-nft';

/** `iptables -P` is no line of iptables-restore. */
async function addRules(node: OtherNode, kind: keyof typeof KINDS): Promise<void> {
  const lines = KINDS[kind].filter((line) => !line.startsWith('-P'));
  await node.rules('n1', toolOf(node), lines);
  if (lines.length < KINDS[kind].length)
    await node.run('n1', [toolOf(node), '-P', 'FORWARD', 'DROP']);
}

/** kube-proxy accepts nothing in its nftables mode: what the filter of another table drops stays dropped. */
const served = (all: string, kind: keyof typeof KINDS) =>
  ({ all, 'kube-proxy nftables': kind === 'firewalld' ? 'unreachable' : 'silent' }) as const;

const statusOf = async (node: OtherNode): Promise<Status> =>
  JSON.parse((await node.fairlead('n1', 'status', '-o', 'json')).stdout) as Status;

describe.each(Object.keys(KINDS) as (keyof typeof KINDS)[])('%s', (kind) => {
  const proxies: readonly ProxyName[] = kind === 'docker' ? [...PROXIES, PACKETS] : PROXIES;
  // What another node sends to a pod of n1 is dropped there, whoever the proxy is.
  onEachProxy('forward-drop', { proxies, on: ['n1'] }, (node) => {
    beforeAll(async () => {
      await addRules(node, kind);
      await node.serve(['node-port', 'ab']);
    });

    test('a client outside is served by a NodePort', () =>
      node.sees(`${kind}: outside -> NodePort`, served('A:8080 B:8080', kind), () =>
        node.ask('X', NODE_PORT, { count: 60, ...QUICK }),
      ));

    test('a pod and a process of the node are served', async () => {
      await node.sees(`${kind}: node -> ClusterIP`, 'A:8080 B:8080', () =>
        node.ask('n1', SVC, { count: 60 }),
      );
    });

    test('what is to no Service is still dropped', async () => {
      const dropped = kind === 'firewalld' ? 'unreachable' : 'silent';
      await node.sees(`${kind}: outside -> pod`, dropped, () => node.ask('X', POD, QUICK));
    });

    test('a rule that drops packets to a pod holds', async () => {
      const closed =
        kind === 'firewalld'
          ? { all: 'B:8080, silent', 'kube-proxy nftables': 'silent, unreachable' }
          : served('B:8080, silent', kind);
      await node.run('n1', [toolOf(node), '-I', 'FORWARD', '-d', '10.1.1.5', '-j', 'DROP']);
      await node.sees(`${kind}: outside -> NodePort, one pod closed`, closed, () =>
        node.ask('X', NODE_PORT, { count: 30, ...QUICK }),
      );
      await node.run('n1', [toolOf(node), '-D', 'FORWARD', '-d', '10.1.1.5', '-j', 'DROP']);
    });
  });
});

describe('views', () => {
  onEachProxy(
    'forward-drop',
    { proxies: ['eBPF'], flags: ['--iptables-sync-period', '1s'], on: ['n1'] },
    (node) => {
      beforeAll(async () => {
        await addRules(node, 'docker');
        await node.serve(['node-port', 'ab']);
      });

      test('status names the chain, and that rules serve packets', async () => {
        expect((await statusOf(node)).fallback).toMatchObject({
          what: 'packets',
          reason: expect.stringContaining('chain FORWARD of table filter: its policy is DROP'),
        });
        expect((await node.fairlead('n1', 'status')).stdout).toContain('chain FORWARD');
      });

      test('when the chain accepts again eBPF serves packets, and no connection is lost', async () => {
        const stream = await (await node.stage().probe('X')).open(NODE_PORT);
        await node.run('n1', ['iptables-nft', '-P', 'FORWARD', 'ACCEPT']);
        await untilHolds(async () => expect((await statusOf(node)).fallback).toBeUndefined());
        await node.sees('docker gone: outside -> NodePort', 'A:8080 B:8080', () =>
          node.ask('X', NODE_PORT, { count: 60, ...QUICK }),
        );
        expect(Object.keys((await stream.talk()).counts)[0]).toMatch(/>/);
        await node.run('n1', ['iptables-nft', '-P', 'FORWARD', 'DROP']);
        await untilHolds(async () => expect((await statusOf(node)).fallback?.what).toBe('packets'));
        await node.sees('docker again: outside -> NodePort', 'A:8080 B:8080', () =>
          node.ask('X', NODE_PORT, { count: 60, ...QUICK }),
        );
        await stream.close();
      });
    },
  );
});
