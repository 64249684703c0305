// SPDX-License-Identifier: Apache-2.0
// Manifests as the demo and the namespace tests write them.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadAll } from 'js-yaml';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { endpointSlices, openManifests } from '../../../src/demo/manifests.ts';
import { serviceManifests } from '../../../src/demo/services.ts';

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
  manifests.put('services.yaml', serviceManifests());
  manifests.put('services.yaml', serviceManifests());
  expect(readdirSync(join(folder, 'live'))).toEqual(['services.yaml']);
  const objects = loadAll(readFileSync(join(folder, 'live', 'services.yaml'), 'utf8'));
  expect(objects).toEqual(serviceManifests());
  manifests.remove('services.yaml');
  manifests.remove('services.yaml');
  expect(readdirSync(join(folder, 'live'))).toEqual([]);
});
