// SPDX-License-Identifier: Apache-2.0
// Algorithms and weights with real sockets: shares, draining, turns, and the source of a client.
import { availableParallelism } from 'node:os';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { hostPort } from '../../../../src/lib/address-bytes.ts';
import type { BackendRow } from '../../../../src/observe/backend-rows.ts';
import type { ServiceRow } from '../../../../src/observe/service-rows.ts';
import { runCommand } from '../../../../tools/lab/agent.ts';
import type { Manifest } from '../../../../tools/lab/manifests.ts';
import type { OpenSocket } from '../../../../tools/lab/traffic.ts';
import { type ServiceSpec, service, target } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';
import { untilHolds } from '../../../support/until.ts';

const POD_NAMES = ['web-1', 'web-2', 'web-3'];

let node: Awaited<ReturnType<typeof startOneNode>>;
beforeAll(async () => {
  node = await startOneNode(POD_NAMES, ['client-1', 'client-2', 'client-3', 'client-4']);
  await node.startAgent();
});
afterAll(() => node?.remove());

interface Balancing {
  readonly algorithm: string;
  /** Of the pods, in both families; absent = no annotation. */
  readonly weights?: readonly number[];
}

const annotated = (object: Manifest, annotations: Readonly<Record<string, string>>): Manifest => ({
  ...object,
  metadata: { ...(object['metadata'] as object), annotations },
});

function put(name: string, spec: ServiceSpec, { algorithm, weights = [] }: Balancing): void {
  const pods = node.pods(...POD_NAMES);
  const [web, ...slices] = service(name, spec, pods);
  if (web === undefined) throw new Error('no Service');
  const objects = slices.map((slice) => {
    const family = slice['addressType'] === 'IPv4' ? 'ipv4' : 'ipv6';
    const text = weights.map((weight, at) => `${pods[at]?.[family]}=${weight}`).join(', ');
    return text === '' ? slice : annotated(slice, { 'fairlead.io/weights': text });
  });
  const all = [annotated(web, { 'fairlead.io/algorithm': algorithm }), ...objects];
  node.manifests.put(`${name}.yaml`, all);
}

async function asked(...args: readonly string[]): Promise<string> {
  const { stdout } = await runCommand(node.instance, [...args, '--run-dir', node.instance.runDir]);
  return stdout;
}

async function rowsOf(name: string): Promise<readonly ServiceRow[]> {
  const { items } = JSON.parse(await asked('services', '-o', 'json')) as { items: ServiceRow[] };
  return items.filter((row) => row.name === name);
}

/** Until the kernel has the Service, with so many backends in each family. */
const served = (name: string, backends = POD_NAMES.length) =>
  untilHolds(async () => {
    const rows = await rowsOf(name);
    expect(rows.map(({ kernel, kernelState }) => [kernel.length, kernelState])).toEqual([
      [backends, 'ok'],
      [backends, 'ok'],
    ]);
  });

/** Open connections to each of the pods. */
async function openOf(name: string, family: 'IPv4' | 'IPv6'): Promise<readonly number[]> {
  const { items } = JSON.parse(await asked('backends', '-o', 'json')) as { items: BackendRow[] };
  return node.pods(...POD_NAMES).map((pod) => {
    const backend = hostPort(family === 'IPv4' ? pod.ipv4 : pod.ipv6, 8080);
    const row = items.find((item) => item.name === name && item.backend === backend);
    return row?.open ?? -1;
  });
}

const hitsOf = async (spec: ServiceSpec, connections: number, kind: 'IPv4' | 'IPv6' = 'IPv4') => {
  const { hits, failures } = await node.client().burst(target(spec, kind), { connections });
  expect(failures).toEqual({});
  return POD_NAMES.map((name) => hits[name] ?? 0);
};

describe.each(['IPv4', 'IPv6'] as const)('%s', (kind) => {
  const n = kind === 'IPv4' ? 30 : 40;

  test('weights are shares', async () => {
    put(`weighted-${n}`, { n }, { algorithm: 'weighted-random', weights: [8, 1, 1] });
    await served(`weighted-${n}`);
    const [heavy = 0, second = 0, third = 0] = await hitsOf({ n }, 1000, kind);
    // Beyond six standard deviations of a share of 0.8.
    expect(Math.abs(heavy - 800)).toBeLessThan(80);
    expect(second).toBeGreaterThan(30);
    expect(third).toBeGreaterThan(30);
  });

  test('turns are even', async () => {
    put(`turns-${n}`, { n: n + 1 }, { algorithm: 'round-robin' });
    await served(`turns-${n}`);
    const hits = await hitsOf({ n: n + 1 }, 300, kind);
    // One for each CPU; a random choice is beyond 8 in two of three runs.
    const most = Math.max(8, availableParallelism());
    expect(Math.max(...hits) - Math.min(...hits)).toBeLessThanOrEqual(most);
  });

  test('who has fewer open connections gets the next ones, and counts end with their sockets', async () => {
    const spec = { n: n + 3 };
    const name = `least-${n}`;
    put(name, spec, { algorithm: 'least-connections' });
    await served(name);
    const sockets: OpenSocket[] = [];
    for (let i = 0; i < 12; i++) sockets.push(await node.client(i % 3).open(target(spec, kind)));
    const open = () => openOf(name, kind);
    expect(await open()).toEqual([4, 4, 4]);
    // All of one backend end: the next ones are its.
    const isSecond = ({ answer }: OpenSocket) =>
      answer?.kind === 'answered' && answer.backend === 'web-2';
    for (const socket of sockets.filter(isSecond)) await socket.close();
    await untilHolds(async () => expect(await open()).toEqual([4, 0, 4]));
    const later: OpenSocket[] = [];
    for (let i = 0; i < 4; i++) later.push(await node.client(i).open(target(spec, kind)));
    expect(later.every(isSecond)).toBe(true);
    expect(await open()).toEqual([4, 4, 4]);
    const left = [...sockets.filter((socket) => !isSecond(socket)), ...later];
    for (const socket of left) await socket.close();
    await untilHolds(async () => expect(await open()).toEqual([0, 0, 0]));
  });

  test('a client stays with the backend that its source names', async () => {
    const spec = { n: n + 2 };
    put(`hash-${n}`, spec, { algorithm: 'source-hash' });
    await served(`hash-${n}`);
    for (const index of [0, 1, 2, 3]) {
      const { hits } = await node.client(index).burst(target(spec, kind), { connections: 40 });
      expect(Object.keys(hits)).toHaveLength(1);
    }
  });
});

test('weight 0 drains: what is open goes on, and what is new goes elsewhere', async () => {
  const spec = { n: 50 };
  put('drained', spec, { algorithm: 'weighted-random', weights: [1, 0, 0] });
  await served('drained', 1);
  const socket = await node.client().open(target(spec));
  expect(socket.answer).toMatchObject({ backend: 'web-1' });
  put('drained', spec, { algorithm: 'weighted-random', weights: [0, 2, 1] });
  await served('drained', 2);
  expect(await socket.talk('still there?')).toMatchObject({ text: 'still there?' });
  const [first] = await hitsOf(spec, 100);
  expect(first).toBe(0);
  expect(await socket.talk('and now?')).toMatchObject({ text: 'and now?' });
  await socket.close();
});

test('with no other weight than 0 connections are refused', async () => {
  const spec = { n: 51 };
  put('refused', spec, { algorithm: 'random', weights: [0, 0, 0] });
  await served('refused', 0);
  expect(await node.client().once(target(spec))).toMatchObject({ code: 'ECONNREFUSED' });
});

test('services and explain show the algorithm and the weights', async () => {
  const spec = { n: 52 };
  put('shown', spec, { algorithm: 'weighted-round-robin', weights: [3, 0] });
  await served('shown', 2);
  const [row] = await rowsOf('shown');
  const [first, second] = node.pods(...POD_NAMES);
  expect(row).toMatchObject({
    algorithm: 'weighted-round-robin',
    weights: [`${first?.ipv4}:8080=3`, `${second?.ipv4}:8080=0`],
  });
  const text = await asked('explain', '--from', '10.244.0.9', '--to', '10.96.0.52:80/tcp');
  expect(text).toMatch(
    /algorithm +weighted-round-robin +each connection gets the next one, by weights 3:1/,
  );
});

test('an unknown algorithm is named in status, and the Service is served', async () => {
  const spec = { n: 53 };
  put('unknown', spec, { algorithm: 'fastest' });
  await served('unknown');
  const { hits } = await node.client().burst(target(spec), { connections: 60 });
  expect(Object.keys(hits).sort()).toEqual(POD_NAMES);
  expect(await asked('status')).toContain('"fastest"');
});
