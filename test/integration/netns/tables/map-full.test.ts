// SPDX-License-Identifier: Apache-2.0
// Maps that are too small: the error names map and Service, programmed state stays, and freed entries are used.
import { afterEach, expect, test } from 'vitest';
import type { FailedEntry } from '../../../../src/engines/dataplane.ts';
import { service, target } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';
import { untilHolds } from '../../../support/until.ts';

const POD_NAMES = ['a', 'b', 'c', 'd', 'e', 'f'];
let node: Awaited<ReturnType<typeof startOneNode>>;
afterEach(() => node?.remove());

const failures = async (): Promise<readonly FailedEntry[]> => (await node.status()).sync.failed;

async function hitsOf(spec: { n: number }): Promise<string[]> {
  const { hits, failures: failed } = await node.client().burst(target(spec), { connections: 120 });
  expect(failed).toEqual({});
  return Object.keys(hits).sort();
}

test('more Services than frontends: the error names the last one, the others are served', async () => {
  node = await startOneNode(['a', 'b']);
  const put = (n: number) => {
    node.manifests.put(`svc-${n}.yaml`, service(`svc-${n}`, { n }, node.servers));
  };
  for (const n of [1, 2, 3, 4]) put(n);
  // Each takes two in each family: its port, and the wildcard that rejects all other ports.
  await node.startAgent(['--map-size', 'frontends=8']);
  put(5);
  await untilHolds(async () => {
    const failed = await failures();
    expect(failed.length).toBeGreaterThan(0);
    for (const { reason, service: key } of failed) {
      expect(key).toBe('default/svc-5');
      expect(reason).toMatch(/fl_f\w+ is full .*frontends/);
    }
  });
  for (const n of [1, 2, 3, 4]) expect(await hitsOf({ n })).toEqual(['a', 'b']);
  expect((await node.client().once(target({ n: 5 }))).kind).toBe('failed');
  node.manifests.remove('svc-1.yaml');
  await untilHolds(async () => {
    expect(await failures()).toEqual([]);
    expect(await node.client().once(target({ n: 5 }))).toMatchObject({ kind: 'answered' });
  });
  expect(await hitsOf({ n: 5 })).toEqual(['a', 'b']);
});

test('more backends than ids: the Service keeps its old backends and gets the new ones once there is room', async () => {
  node = await startOneNode(POD_NAMES);
  const grown = { n: 1 };
  const other = { n: 2 };
  node.manifests.put('grown.yaml', service('grown', grown, node.pods('a', 'b')));
  node.manifests.put('other.yaml', service('other', other, node.pods('c', 'd')));
  // Both families take an id for each backend: eight of ten are used.
  await node.startAgent(['--map-size', 'backends=10']);
  const load = await node.client().startLoad(target(grown));
  node.manifests.put('grown.yaml', service('grown', grown, node.pods(...POD_NAMES)));
  await untilHolds(async () => {
    const [failed] = await failures();
    expect(failed?.service).toBe('default/grown');
    expect(failed?.reason).toMatch(/ is full .*backends/);
  });
  expect(await hitsOf(other)).toEqual(['c', 'd']);
  node.manifests.put('grown.yaml', service('grown', grown, node.pods('a', 'e')));
  node.manifests.remove('other.yaml');
  await untilHolds(async () => {
    expect(await failures()).toEqual([]);
    expect(await hitsOf(grown)).toEqual(['a', 'e']);
  });
  const report = await load.stop();
  expect(report.failures).toEqual([]);
});

test('sizes too small for what the pinned maps hold are rejected with the remedy; traffic continues', async () => {
  node = await startOneNode(['a', 'b']);
  node.manifests.put('web.yaml', service('web', { n: 1 }, node.servers));
  const agent = await node.startAgent(['--map-size', 'backends=64']);
  await agent.stop();
  await expect(node.startAgent(['--map-size', 'backends=1'])).rejects.toThrow(/fairlead cleanup/);
  expect(await hitsOf({ n: 1 })).toEqual(['a', 'b']);
  await node.startAgent(['--map-size', 'backends=128']);
  expect(await hitsOf({ n: 1 })).toEqual(['a', 'b']);
});
