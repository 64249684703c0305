// SPDX-License-Identifier: Apache-2.0
// Manifests as the demo and the namespace tests write them.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadAll } from 'js-yaml';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { endpointSlices, nodeManifest, openManifests } from '../../../../tools/lab/manifests.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'manifests-'));
  mkdirSync(join(folder, 'live'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const pod = { name: 'web-1', nodeName: 'n1', ipv4: '10.1.1.10', ipv6: 'fd00:10:1::a' };
const port = { name: 'http', port: 8080, protocol: 'TCP' } as const;

test('a Service gets one slice for each family, with the pod and its readiness', () => {
  const [v4, v6] = endpointSlices('web', port, [{ pod }, { pod, isReady: false }]);
  expect(v4).toMatchObject({ addressType: 'IPv4', ports: [port] });
  expect(v6).toMatchObject({
    metadata: { name: 'web-ipv6', labels: { 'kubernetes.io/service-name': 'web' } },
    endpoints: [
      { addresses: ['fd00:10:1::a'], conditions: { ready: true }, nodeName: 'n1' },
      { addresses: ['fd00:10:1::a'], conditions: { ready: false } },
    ],
  });
});

test('a file holds all its objects, and no draft is left in the folder', () => {
  const manifests = openManifests(join(folder, 'live'));
  const objects = [{ kind: 'Service' }, { kind: 'Node' }];
  manifests.put('services.yaml', objects);
  manifests.put('services.yaml', objects);
  expect(readdirSync(join(folder, 'live'))).toEqual(['services.yaml']);
  const read = loadAll(readFileSync(join(folder, 'live', 'services.yaml'), 'utf8'));
  expect(read).toEqual(objects);
  manifests.remove('services.yaml');
  manifests.remove('services.yaml');
  expect(readdirSync(join(folder, 'live'))).toEqual([]);
});

test('a Node has the addresses of its bridge and the ranges of its pods', () => {
  const host = { name: 'n3', index: 3, namespace: '', cgroup: '', pods: [] };
  const node = nodeManifest({ ...host, ipv4: '10.1.3.1', ipv6: 'fd00:10:3::1' });
  expect(node).toMatchObject({
    metadata: { name: 'n3' },
    spec: { podCIDRs: ['10.1.3.0/24', 'fd00:10:3::/64'] },
    status: { addresses: [{ address: '10.1.3.1' }, { address: 'fd00:10:3::1' }] },
  });
});
