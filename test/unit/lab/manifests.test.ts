// SPDX-License-Identifier: Apache-2.0
// Manifests as the demo and the namespace tests write them.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadAll } from 'js-yaml';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readExamples, serverPorts } from '../../../src/demo/services.ts';
import { endpointSlices, openManifests } from '../../../src/lab/manifests.ts';

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

test('the examples have every Service that the demo shows, and no slice is taken from them', () => {
  const examples = readExamples();
  const { web, dns, cart, empty } = examples.services;
  expect(web.clusterIps.map((address) => address.includes(':'))).toEqual([false, true]);
  expect(empty.clusterIps).toHaveLength(2);
  expect([web, dns, cart].map(({ slicePort }) => slicePort.protocol)).toEqual([
    'TCP',
    'UDP',
    'TCP',
  ]);
  expect(serverPorts(examples)).toEqual([web.slicePort.port, dns.slicePort.port]);
  const kinds = new Set(examples.manifests.map(({ kind }) => kind));
  expect([...kinds].sort()).toEqual(['Node', 'Service']);
});
