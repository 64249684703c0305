// SPDX-License-Identifier: Apache-2.0
// Kernels that lack something of the packet layer: the agent serves the rest, and says what it does not.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Answer } from '../../../../src/observe/answer.ts';
import { runCommand } from '../../../../tools/lab/agent.ts';
import type { Answer as Reply } from '../../../../tools/lab/client/protocol.ts';
import { service } from '../../../support/builders.ts';
import { replaceObject } from '../../../support/dataplane/replaced-object.ts';
import { startOneNode, type TestNode } from '../../../support/node.ts';
import {
  BALANCER,
  type DirectCluster,
  OUTSIDE,
  PORTS,
  startDirectCluster,
  VIPS,
} from '../../../support/packets/direct-return.ts';
import { AT_ONCE_MS } from '../../../support/until.ts';

const command = (node: TestNode, words: readonly string[]) =>
  runCommand(node.instance, [...words, '--run-dir', node.instance.runDir]);

describe('one that refuses the packet object, with --engine bpf', () => {
  let node: TestNode & { remove(): void };
  let restore: (() => void) | undefined;

  beforeAll(async () => {
    restore = replaceObject('packet.bpf.o', 'refused.bpf.o');
    node = await startOneNode(['web']);
  });
  afterAll(() => {
    restore?.();
    node?.remove();
  });

  test('the agent starts without packets, serves sockets, and status names the reason', async () => {
    const [web] = node.pods('web');
    node.manifests.put('web.yaml', service('web', { n: 10 }, [web!]));
    const agent = await node.startAgent(['--devices', 'auto', '--engine', 'bpf']);
    const target = { address: '10.96.0.10', port: 80, protocol: 'TCP' } as const;
    expect(await node.client().once(target, AT_ONCE_MS)).toMatchObject({ backend: 'web' });
    expect(agent.log.filter((line) => line.includes('only sockets of this node'))).toHaveLength(1);

    const { code, stdout } = await command(node, ['status']);
    expect(code).toBe(3);
    expect(stdout).toMatch(/^Health: +degraded: .*1 layer refused by the kernel/m);
    expect(stdout).toMatch(/^Failed: +packet layer: the kernel refused a program/m);
    expect(stdout).not.toMatch(/^Devices?:/m);
    const flow = ['--from', '192.0.2.1', '--to', '10.96.0.10:80/tcp', '-o', 'json'];
    const explained = await command(node, ['explain', ...flow]);
    const { dataplane, limits } = JSON.parse(explained.stdout) as Answer;
    expect({ dataplane, limits }).toEqual({
      dataplane: null,
      limits: ['not served by bpf: packets from outside'],
    });
    await agent.stop();
  });
});

describe('one that makes no room for headers', () => {
  const WHY =
    'IPv4 in Geneve between nodes of IPv4 cannot be sent: bpf_skb_adjust_room() makes no room for headers (error 524)';
  let cluster: DirectCluster;
  let restore: (() => void) | undefined;

  beforeAll(async () => {
    restore = replaceObject('direct.bpf.o', 'no_room.bpf.o');
    cluster = await startDirectCluster();
    await cluster.serve();
  });
  afterAll(async () => {
    restore?.();
    await cluster?.stop();
  });

  /** The client that the server on another node has seen. */
  async function seen(protocol: 'TCP' | 'UDP', family: number): Promise<string | undefined> {
    const target = { protocol, address: VIPS[family] ?? '', port: PORTS[protocol] };
    const answer: Reply = await cluster.outside.once(target);
    return answer.kind === 'failed' ? answer.code : answer.clientSeen.address;
  }

  test('requests to other nodes are masqueraded, although those nodes take them', async () => {
    await cluster.serve({ endpoints: [{ pod: cluster.servers[1]! }] });
    for (const family of [0, 1]) {
      for (const protocol of ['TCP', 'UDP'] as const) {
        expect(await seen(protocol, family)).toBe(BALANCER[family]);
      }
    }
  });

  test('status, explain and services say so, and why', async () => {
    const [node] = cluster.nodes as [TestNode];
    const status = await command(node, ['status']);
    expect(status.code).toBe(0);
    expect(status.stdout).toContain(
      `bpf: there is no direct return (${WHY}): what goes to other nodes is masqueraded`,
    );
    const flow = ['--from', OUTSIDE[0], '--to', `${VIPS[0]}:80/tcp`, '-o', 'json'];
    const explained = await command(node, ['explain', ...flow]);
    const { steps, source } = JSON.parse(explained.stdout) as Answer;
    expect(source).toBe('node');
    expect(steps).toContainEqual({
      ...{ rule: 'forwarding', result: 'snat' },
      reason: `bpf has no direct return on this node (${WHY}): all of them are masqueraded`,
    });
    const { stdout } = await command(node, ['services', '-o', 'wide']);
    expect(stdout).toContain('dsr (snat)');
  });
});
