// SPDX-License-Identifier: Apache-2.0
// What programs need to know for direct return: the nodes of backends, and the backends of this node by what others call them.
import { expect, test } from 'vitest';
import {
  decodeNodeAddress,
  encodeLocalBackendKey,
} from '../../../../../src/engines/bpf/direct-return/direct-layout.ts';
import { withoutBackends } from '../../../../../src/engines/bpf/direct-return/held-backends.ts';
import { decodeBackend, decodeU32 } from '../../../../../src/engines/bpf/layout/layout.ts';
import {
  createTableSync,
  type TableSync,
} from '../../../../../src/engines/bpf/state/table-sync.ts';
import { element } from '../../../../../src/engines/bpf/state/tables.ts';
import type { Backend, Frontend, Peer, Plan } from '../../../../../src/plan/types.ts';
import { applyAll } from '../../../../support/dataplane/apply-all.ts';
import { createMemoryTables, type MemoryTables } from '../../../../support/tables/memory.ts';
import { backend, clusterIp, planOf, servicePort } from '../plans.ts';

const SIZES = { frontends: 16, backends: 8, slotBlocks: 16, services: 8 };
const VIP: Frontend = { ...clusterIp('203.0.113.10'), kind: 'LoadBalancer' };
const on = (node: string | undefined, address: string): Backend => ({
  ...backend(address, 8080, node === undefined),
  ...(node !== undefined && { node }),
});
const NODES: Readonly<Record<string, string>> = { n2: '192.0.2.12', n3: '192.0.2.13' };

const plan = (nodes: readonly string[], ...backends: readonly Backend[]): Plan => {
  const made = planOf(servicePort('web', [VIP], backends));
  const peers = new Map(
    nodes.map((name): [string, Peer] => [
      name,
      { addresses: [NODES[name] ?? name], directReturnPort: 6081 },
    ]),
  );
  return { ...made, node: { ...made.node, peers } };
};

const start = (tables = createMemoryTables(SIZES)) => ({
  tables,
  sync: createTableSync(tables, () => Promise.resolve()),
});

async function apply(sync: TableSync, wanted: Plan): Promise<void> {
  sync.followNodes(wanted.node);
  expect(applyAll(sync, wanted).failed).toEqual([]);
  await sync.releaseRetired();
}

/** `10.1.2.5 -> 192.0.2.12`, of those that are known. */
const nodesIn = (tables: MemoryTables): readonly string[] =>
  Array.from({ length: SIZES.backends }, (_, id) => id).flatMap((id) => {
    const { address, state } = decodeBackend(element(tables.backend.IPv4, id), 'IPv4');
    const node = decodeNodeAddress(element(tables.direct.backendNode, id));
    return state === 0 || node === undefined ? [] : `${address} -> ${node}`;
  });

/** `10.1.1.5:8080` of backends whose id is that of this backend. */
const localIn = (tables: MemoryTables): readonly string[] =>
  tables.direct.localBackend.readAll().map(({ key, value }) => {
    const backend = element(tables.backend.IPv4, decodeU32(value));
    const { address, port, serviceId, isLocal } = decodeBackend(backend, 'IPv4');
    expect(isLocal).toBe(true);
    expect(key).toEqual(encodeLocalBackendKey({ address, port, serviceId }));
    return `${address}:${port}`;
  });

test('a backend has the address of its node, unless it is here or that is not known', async () => {
  const { tables, sync } = start();
  await apply(
    sync,
    plan(['n2'], on('n2', '10.1.2.5'), on('n3', '10.1.3.5'), on(undefined, '10.1.1.5')),
  );
  expect(nodesIn(tables)).toEqual(['10.1.2.5 -> 192.0.2.12']);
});

test('nodes that come, change or move are followed; one that goes is kept for flows that exist', async () => {
  const { tables, sync } = start();
  const two = [on('n2', '10.1.2.5'), on('n3', '10.1.3.5')];
  await apply(sync, plan([], ...two));
  expect(nodesIn(tables)).toEqual([]);
  sync.followNodes(plan(['n2', 'n3']).node);
  expect(nodesIn(tables)).toEqual(['10.1.2.5 -> 192.0.2.12', '10.1.3.5 -> 192.0.2.13']);
  const moved = new Map([['n2', { addresses: ['192.0.2.99'], directReturnPort: 6081 }]]);
  sync.followNodes({ ...plan([]).node, peers: moved });
  expect(nodesIn(tables)).toEqual(['10.1.2.5 -> 192.0.2.99', '10.1.3.5 -> 192.0.2.13']);
  await apply(sync, plan(['n2', 'n3'], on('n3', '10.1.2.5'), on('n3', '10.1.3.5')));
  expect(nodesIn(tables)).toEqual(['10.1.2.5 -> 192.0.2.13', '10.1.3.5 -> 192.0.2.13']);
});

const { outside } = VIP.rules;
const IPIP = { ...VIP.rules, outside: { ...outside, directReturn: true, ipip: true } } as const;
const withIpip = (...backends: readonly Backend[]): Plan => ({
  ...planOf(servicePort('web', [{ ...VIP, rules: IPIP }], backends)),
  node: plan(['n2']).node,
});

test('a real server is its own node; endpoints of nodes, and of Services without IPIP, are not', async () => {
  const { tables, sync } = start();
  const server = backend('192.0.2.80', 8080);
  await apply(sync, withIpip(server, on('n2', '192.0.2.12'), on(undefined, '10.1.1.5')));
  expect(nodesIn(tables)).toEqual(['192.0.2.80 -> 192.0.2.80']);
  sync.followNodes(plan(['n2', 'n3']).node);
  expect(nodesIn(tables)).toEqual(['192.0.2.80 -> 192.0.2.80']);
  await apply(sync, withIpip(on('n2', '192.0.2.80')));
  expect(nodesIn(tables)).toEqual([]);
  await apply(sync, plan(['n2'], backend('192.0.2.81', 8080)));
  expect(nodesIn(tables)).toEqual([]);
});

test('a Service that asks for IPIP leaves flows to nodes as they are, but for pods in the network of their host', async () => {
  const { tables, sync } = start();
  const backends = [on('n2', '10.1.2.5'), on('n2', '192.0.2.12')];
  await apply(sync, plan(['n2'], ...backends));
  expect(nodesIn(tables)).toEqual(['10.1.2.5 -> 192.0.2.12', '192.0.2.12 -> 192.0.2.12']);
  await apply(sync, withIpip(...backends));
  expect(nodesIn(tables)).toEqual(['10.1.2.5 -> 192.0.2.12']);
  await apply(start(tables).sync, withIpip(...backends));
  expect(nodesIn(tables)).toEqual(['10.1.2.5 -> 192.0.2.12']);
});

test('an id that is given to another backend has no node of the former', async () => {
  const { tables, sync } = start();
  for (let host = 1; host <= 40; host += 1) {
    await apply(sync, plan(['n2'], on(host % 2 === 0 ? undefined : 'n2', `10.1.2.${host}`)));
  }
  expect(nodesIn(tables)).toEqual([]);
  await apply(sync, plan(['n2'], backend('10.1.2.99')));
  expect(nodesIn(tables)).toEqual([]);
});

test('backends of this node are found by what others call them, as long as they are there', async () => {
  const { tables, sync } = start();
  await apply(sync, plan([], on(undefined, '10.1.1.5'), on('n2', '10.1.2.5')));
  expect(localIn(tables)).toEqual(['10.1.1.5:8080']);
  await apply(sync, plan([], on(undefined, '10.1.1.6'), on('n2', '10.1.2.5')));
  expect(localIn(tables)).toEqual(['10.1.1.6:8080']);
  await apply(sync, plan([], on('n2', '10.1.1.6'), on('n2', '10.1.2.5')));
  expect(localIn(tables)).toEqual([]);
  await apply(
    sync,
    planOf(servicePort('web', [clusterIp('10.96.0.10')], [on(undefined, '10.1.1.7')])),
  );
  expect(localIn(tables)).toEqual([]);
});

test('a new agent adopts them, keeps the nodes it does not know yet, and removes strays', async () => {
  const { tables, sync } = start();
  const backends = [on(undefined, '10.1.1.5'), on('n2', '10.1.2.5')];
  await apply(sync, plan(['n2'], ...backends));
  const stray = tables.direct.localBackend.readAll()[0]?.key.slice() ?? new Uint8Array();
  stray[15] = 99;
  tables.direct.localBackend.put([stray], [Uint8Array.of(1, 0, 0, 0)]);
  const next = start(tables).sync;
  await apply(next, plan([], ...backends));
  next.dropStray();
  expect(localIn(tables)).toEqual(['10.1.1.5:8080']);
  expect(nodesIn(tables)).toEqual(['10.1.2.5 -> 192.0.2.12']);
});

test('audit reports and repairs what direct return needs to know', async () => {
  const { tables, sync } = start();
  await apply(sync, plan(['n2'], on('n2', '10.1.2.5'), on(undefined, '10.1.1.5')));
  const { backendNode, localBackend } = tables.direct;
  const before = { nodes: nodesIn(tables), local: localIn(tables) };
  expect([...sync.findDrift()].flat()).toEqual([]);
  const id = Array.from({ length: SIZES.backends }, (_, at) => at).find(
    (at) => decodeNodeAddress(element(backendNode, at)) !== undefined,
  );
  backendNode.view(id ?? 0).setUint8(backendNode.offset(id ?? 0) + 15, 99);
  localBackend.delete(localBackend.readAll().map(({ key }) => key));
  const drift = [...sync.findDrift()].flat().map(({ text }) => text);
  expect(drift.toSorted()).toEqual([
    expect.stringMatching(/^key for direct return of backend 10\.1\.1\.5:8080 .* is missing$/),
    expect.stringMatching(/^node for direct return of backend 10\.1\.2\.5:8080 .* differs$/),
  ]);
  expect({ nodes: nodesIn(tables), local: localIn(tables) }).toEqual(before);
  expect([...sync.findDrift()].flat()).toEqual([]);
});

test('a key that a newer id has stays when the older id goes', () => {
  const [shared, own] = [Uint8Array.of(1), Uint8Array.of(2)];
  const held = new Map([
    [5, shared],
    [6, own],
    [7, shared.slice()],
  ]);
  expect(withoutBackends(held, [5, 6])).toEqual({ gone: [own], stay: new Map([[7, shared]]) });
  expect(withoutBackends(held, [5, 7])).toEqual({ gone: [shared], stay: new Map() });
});
