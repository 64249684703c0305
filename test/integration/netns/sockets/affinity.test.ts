// SPDX-License-Identifier: Apache-2.0
// Session affinity per client pod: it holds, is renewed by use, expires, and follows the endpoints.
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client } from '../../../../tools/lab/traffic.ts';
import { type AddressKind, service, slices, target } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';
import { until } from '../../../support/until.ts';

const POD_NAMES = ['web-1', 'web-2', 'web-3', 'web-4'];
const long = { n: 20, affinitySeconds: 10_800 };
const short = { n: 21, affinitySeconds: 1 };
const renewed = { n: 22, affinitySeconds: 2 };
const leaving = { n: 23, affinitySeconds: 10_800 };
const udp = { n: 24, affinitySeconds: 10_800, protocol: 'UDP', targetPort: 5353 } as const;
const none = { n: 25 };

let node: Awaited<ReturnType<typeof startOneNode>>;

beforeAll(async () => {
  node = await startOneNode(POD_NAMES, ['client-1', 'client-2', 'client-3', 'client-4']);
  const pods = node.pods(...POD_NAMES);
  const specs = { long, short, renewed, leaving, udp, none };
  for (const [name, spec] of Object.entries(specs)) {
    node.manifests.put(`${name}.yaml`, service(name, spec, pods));
  }
  await node.startAgent();
});
afterAll(() => node?.remove());

async function backendOf(client: Client, spec: { n: number }, kind: AddressKind = 'IPv4') {
  const answer = await client.once(target(spec, kind));
  if (answer.kind !== 'answered') throw new Error(`failed: ${answer.code}`);
  return answer.backend;
}

test('without affinity a client reaches every backend', async () => {
  const { hits } = await node.client().burst(target(none), { connections: 200 });
  expect(Object.keys(hits).sort()).toEqual(POD_NAMES);
});

test.each(['IPv4', 'IPv6', 'v4-mapped'] as const)(
  '%s: a client stays with one backend',
  async (kind) => {
    const { hits, failures } = await node.client().burst(target(long, kind), { connections: 200 });
    expect(failures).toEqual({});
    expect(Object.keys(hits)).toHaveLength(1);
  },
);

test('concurrent first connections of a client reach at most a few backends, later ones a single one', async () => {
  const client = node.client(1);
  await client.burst(target(long), { connections: 64, concurrency: 64 });
  const { hits } = await client.burst(target(long), { connections: 100, concurrency: 32 });
  expect(Object.keys(hits)).toHaveLength(1);
});

test('a v4-mapped socket is the same client as a v4 one', async () => {
  const backend = await backendOf(node.client(), long, 'IPv4');
  expect(await backendOf(node.client(), long, 'v4-mapped')).toBe(backend);
});

test('UDP keeps the backend too, from socket to socket', async () => {
  const { hits, failures } = await node.client().burst(target(udp), { connections: 100 });
  expect(failures).toEqual({});
  expect(Object.keys(hits)).toHaveLength(1);
});

test('clients get backends independently of each other', async () => {
  // By chance all four clients get the same of four backends for one Service in 64, so several are checked.
  const choices = await Promise.all(
    [long, leaving, renewed].flatMap((spec) =>
      [0, 1, 2, 3].map((index) => backendOf(node.client(index), spec)),
    ),
  );
  expect(new Set(choices).size).toBeGreaterThan(1);
});

test('a client that is idle for the timeout may get another backend', async () => {
  const seen = new Set<string>();
  const choose = async () => {
    seen.add(await backendOf(node.client(), short));
    await until(() => performance.now() > idleUntilMs, { what: 'idle time over' });
  };
  let idleUntilMs = 0;
  for (let i = 0; i < 12 && seen.size < 2; i++) {
    idleUntilMs = performance.now() + 1_200;
    await choose();
  }
  expect(seen.size).toBeGreaterThan(1);
});

test('every connection renews the timeout', async () => {
  const seen = new Set<string>();
  const timeoutMs = renewed.affinitySeconds * 1_000;
  let [beganMs, usedMs] = [0, 0];
  await until(
    async () => {
      const askedMs = performance.now();
      if (askedMs < usedMs + 700) return false;
      const backend = await backendOf(node.client(3), renewed);
      // With other work on the machine a pause may be as long as the time-out, and proves nothing: it begins anew.
      if (performance.now() - usedMs >= timeoutMs) {
        seen.clear();
        beganMs = askedMs;
      }
      seen.add(backend);
      usedMs = askedMs;
      return askedMs - beganMs > 2.5 * timeoutMs;
    },
    { what: 'use for longer than the time-out', timeoutMs: 60_000 },
  );
  expect(seen.size).toBe(1);
});

test('a client whose backend is removed gets another one and stays with it', async () => {
  const client = node.client(2);
  const old = await backendOf(client, leaving);
  const pods = node.pods(...POD_NAMES);
  const rest = pods.filter(({ name }) => name !== old);
  node.manifests.put('leaving.yaml', service('leaving', leaving, rest));
  const next = await until(
    async () => {
      const backend = await backendOf(client, leaving);
      return backend === old ? undefined : backend;
    },
    { what: 'another backend' },
  );
  const { hits, failures } = await client.burst(target(leaving), { connections: 100 });
  expect(failures).toEqual({});
  expect(Object.keys(hits)).toEqual([next]);
});

test('a client keeps its backend while others are added and removed', async () => {
  const client = node.client(3);
  const own = await backendOf(client, long);
  const pods = node.pods(...POD_NAMES).filter(({ name }) => name === own || name === 'web-1');
  const load = await client.startLoad(target(long));
  for (const endpoints of [pods, node.pods(...POD_NAMES), pods]) {
    const ready = endpoints.map((pod) => ({ pod }));
    node.manifests.put('long.yaml', [
      ...service('long', long, []).slice(0, 1),
      ...slices('long', ready),
    ]);
    await node.programmed();
    const before = (await load.read()).connections;
    await until(async () => (await load.read()).connections > before + 100, { what: 'more use' });
  }
  const { hits, failureCount } = await load.stop();
  expect(failureCount).toBe(0);
  expect(Object.keys(hits)).toEqual([own]);
});
