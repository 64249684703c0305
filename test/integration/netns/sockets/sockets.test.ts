// SPDX-License-Identifier: Apache-2.0
// Every kind of socket that can reach a Service, and the peer address it sees: the Service's, never a backend's.
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Target } from '../../../../tools/lab/client/protocol.ts';
import { startClient } from '../../../../tools/lab/traffic.ts';
import { type AddressKind, clusterIps, service, svc, target } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';
import { AT_ONCE_MS } from '../../../support/until.ts';

const web = { n: 10, port: 80, protocol: 'TCP' } as const;
const dns = { n: 53, port: 53, targetPort: 5353, protocol: 'UDP' } as const;
const other = { n: 54, port: 53, targetPort: 8081, protocol: 'UDP' } as const;
const emptyTcp = { n: 30, protocol: 'TCP' } as const;
const emptyUdp = { n: 31, protocol: 'UDP' } as const;
const KINDS: readonly AddressKind[] = ['IPv4', 'IPv6', 'v4-mapped'];

let node: Awaited<ReturnType<typeof startOneNode>>;

beforeAll(async () => {
  node = await startOneNode(['web-1', 'web-2', 'dns-1', 'dns-2']);
  node.manifests.put('all.yaml', [
    ...service('web', web, node.pods('web-1', 'web-2')),
    ...service('dns', dns, node.pods('dns-1', 'dns-2')),
    ...service('other', other, node.pods('web-1')),
    ...[svc('empty-tcp', emptyTcp), svc('empty-udp', emptyUdp)],
  ]);
  await node.startAgent();
});
afterAll(() => node?.remove());

/** The peer address that a socket of this kind must show. */
const peerOf = ({ address, port }: Target) => ({ address, port });

test.each(KINDS)('TCP %s: answered by a backend, getpeername shows the Service', async (kind) => {
  for (let i = 0; i < 20; i++) {
    const answer = await node.client().once(target(web, kind));
    expect(answer).toMatchObject({ kind: 'answered', peer: peerOf(target(web, kind)) });
    expect(answer).toHaveProperty('backend', expect.stringMatching(/^web-[12]$/));
  }
});

test.each(KINDS)('UDP %s, not connected: the reply comes from the Service', async (kind) => {
  for (let i = 0; i < 20; i++) {
    const answer = await node.client().once(target(dns, kind));
    expect(answer).toMatchObject({ kind: 'answered', source: peerOf(target(dns, kind)) });
    expect(answer).toHaveProperty('backend', expect.stringMatching(/^dns-[12]$/));
  }
});

test.each(KINDS)('UDP %s, connected: peer and source are the Service', async (kind) => {
  for (let i = 0; i < 20; i++) {
    const to: Target = { ...target(dns, kind), isConnected: true };
    const peer = peerOf(to);
    expect(await node.client().once(to)).toMatchObject({ kind: 'answered', peer, source: peer });
  }
});

test.each(['IPv4', 'IPv6'] as const)('%s: the server sees the client pod itself', async (kind) => {
  const answer = await node.client().once(target(web, kind));
  const [sandbox] = node.sandboxes;
  const address = kind === 'IPv4' ? '10.1.1.10' : 'fd00:10:1::a';
  expect(sandbox?.name).toBe('client');
  expect(answer).toMatchObject({ clientSeen: { address } });
});

test('a program on the node itself reaches Services too, over TCP and UDP', async () => {
  const host = await startClient(node.self);
  for (const kind of KINDS) {
    expect(await host.once(target(web, kind))).toMatchObject({ kind: 'answered' });
    const source = peerOf(target(dns, kind));
    expect(await host.once(target(dns, kind))).toMatchObject({ kind: 'answered', source });
  }
});

test('a backend reaches its own Service, itself included', async () => {
  const [pod] = node.pods('web-1');
  const client = await startClient(pod!);
  const { hits, failures } = await client.burst(target(web), { connections: 100 });
  expect(failures).toEqual({});
  expect(Object.keys(hits).sort()).toEqual(['web-1', 'web-2']);
});

test('an open TCP connection keeps its backend and its peer address', async () => {
  const socket = await node.client().open(target(web));
  const greeting = socket.answer;
  if (greeting?.kind !== 'answered') throw new Error('no greeting');
  for (const text of ['one', 'two', 'three']) {
    const answer = await socket.talk(text);
    expect(answer).toMatchObject({ backend: greeting.backend, text, peer: peerOf(target(web)) });
  }
  await socket.close();
});

test.each(KINDS)(
  'one UDP %s socket talks to two Services and tells replies apart',
  async (kind) => {
    const socket = await node.client().open(target(dns, kind));
    for (let i = 0; i < 10; i++) {
      const first = await socket.talk(`dns ${i}`);
      expect(first).toMatchObject({ kind: 'answered', source: peerOf(target(dns, kind)) });
      const second = await socket.talk(`other ${i}`, target(other, kind));
      expect(second).toMatchObject({ backend: 'web-1', source: peerOf(target(other, kind)) });
    }
    await socket.close();
  },
);

test('one UDP socket talks to a Service and to a pod directly: each reply has its own source', async () => {
  const [pod] = node.pods('dns-1');
  const socket = await node.client().open(target(dns));
  for (let i = 0; i < 5; i++) {
    expect(await socket.talk('via Service')).toMatchObject({ source: peerOf(target(dns)) });
    const direct = { address: pod!.ipv4, port: 8081 };
    expect(await socket.talk('direct', direct)).toMatchObject({ source: direct });
  }
  await socket.close();
});

test('an unconnected UDP socket keeps its backend from datagram to datagram', async () => {
  const socket = await node.client().open(target(dns));
  const backends = new Set<string>();
  for (let i = 0; i < 10; i++) {
    const answer = await socket.talk(`${i}`);
    if (answer.kind === 'answered') backends.add(answer.backend);
  }
  await socket.close();
  expect(backends.size).toBe(1);
});

test.each(KINDS)('%s: no endpoints means ECONNREFUSED at once', async (kind) => {
  const refused = { kind: 'failed', code: 'ECONNREFUSED' };
  const targets: Target[] = [
    target(emptyTcp, kind),
    target(emptyUdp, kind),
    { ...target(emptyUdp, kind), isConnected: true },
  ];
  for (const to of targets) {
    const answer = await node.client().once(to);
    expect(answer).toMatchObject(refused);
    expect(answer.elapsedMs).toBeLessThan(AT_ONCE_MS);
  }
});

test("a port that is not the Service's and an address without a Service are left alone", async () => {
  const { ipv4 } = clusterIps(200);
  const unserved = await node.client().once({ protocol: 'TCP', address: ipv4, port: 80 }, 1_000);
  expect(unserved.kind).toBe('failed');
  const [pod] = node.pods('web-2');
  const direct: Target = { protocol: 'TCP', address: pod!.ipv4, port: 8080 };
  expect(await node.client().once(direct)).toMatchObject({
    backend: 'web-2',
    peer: peerOf(direct),
  });
});

test('TCP and UDP on one address and port are different frontends', async () => {
  const tcpToUdp = await node.client().once({ ...target(dns), protocol: 'TCP' }, 1_000);
  expect(tcpToUdp.kind).toBe('failed');
});
