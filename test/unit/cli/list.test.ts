// SPDX-License-Identifier: Apache-2.0
// `services` and `backends` against an agent's socket: selected rows and output formats.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { backendsCommand } from '../../../src/cli/commands/backends.ts';
import { servicesCommand } from '../../../src/cli/commands/services.ts';
import type { BackendRow } from '../../../src/observe/backend-rows.ts';
import type { ServiceRow } from '../../../src/observe/service-rows.ts';
import { type AgentSocket, serveSocket } from '../../../src/server/admin-socket.ts';

const SERVICE: ServiceRow = {
  ...{ namespace: 'default', name: 'web', port: 'http', type: 'NodePort', kind: 'ClusterIP' },
  ...{ frontend: '10.96.0.10:80/TCP', family: 'IPv4', labels: 'app=web,tier=front' },
  ...{ internalTrafficPolicy: 'Cluster', externalTrafficPolicy: 'Local', affinitySeconds: 600 },
  ...{ algorithm: 'weighted-random', weights: ['10.1.1.5:8080=3', '10.1.3.5:8080=0'] },
  desired: ['10.1.1.5:8080', '10.1.2.5:8080'],
  kernel: ['10.1.1.5:8080', '10.1.2.5:8080'],
  externalDesired: ['10.1.1.5:8080'],
  externalKernel: ['10.1.1.5:8080'],
  terminating: ['10.1.3.5:8080'],
  servedBy: ['bpf'],
  sourceRanges: ['192.0.2.0/24', '198.51.100.7/32'],
  ...{ toBackend: { packets: 12, bytes: 4096 }, toClient: { packets: 9, bytes: 1_048_576 } },
  ...{ kernelState: 'ok', limits: [], connections: 5, refused: 1, dropped: 2, affinityHits: 0 },
};
const SERVICES: readonly ServiceRow[] = [
  SERVICE,
  {
    ...SERVICE,
    ...{ kind: 'NodePort', frontend: '*:30080/TCP', sourcePolicy: 'deny' },
    ...{ exposedKinds: ['NodePort'], exposedOn: 'role=edge', isExposedHere: false },
    limits: ['not served by bpf: packets from outside'],
  },
  {
    ...SERVICE,
    ...{ namespace: 'kube-system', name: 'dns', labels: '', frontend: '10.96.0.53:53/UDP' },
    ...{ kernel: [], kernelState: 'missing' },
  },
];
const BACKEND: BackendRow = {
  ...{ namespace: 'default', name: 'web', port: 'http', backend: '10.1.1.5:8080', family: 'IPv4' },
  ...{ labels: 'app=web', isDesired: true, kernelState: 'ok', state: 'active', isLocal: true },
  ...{ connections: 5, open: 2, dataplane: 'bpf', id: 1, generation: 1 },
};

/** Of a dataplane that counts nothing. */
const UNCOUNTED_SERVICE: ServiceRow = {
  ...without(SERVICE, ['connections', 'refused', 'dropped', 'affinityHits']),
  ...{ namespace: 'rules', servedBy: ['iptables'] },
};
const UNCOUNTED_BACKEND: BackendRow = {
  ...without(BACKEND, ['connections', 'open', 'id', 'generation']),
  ...{ namespace: 'rules', dataplane: 'iptables' },
};

function without<T extends object, K extends keyof T>(row: T, keys: readonly K[]): Omit<T, K> {
  const left = { ...row };
  for (const key of keys) delete left[key];
  return left;
}

let runDir = '';
let socket: AgentSocket;
let served = 0;

beforeAll(async () => {
  runDir = mkdtempSync(join(tmpdir(), 'fairlead-list-'));
  socket = await serveSocket(runDir, {
    // Each reading has a hundred more connections than the previous one.
    '/v1/services': () =>
      SERVICES.map((row) => ({ ...row, connections: (row.connections ?? 0) + 100 * served++ })),
    '/v1/backends': () => [BACKEND],
  });
});
afterAll(() => {
  socket.close();
  rmSync(runDir, { recursive: true });
});

async function printed(command: Command, ...args: readonly string[]) {
  const written = { stdout: '', stderr: '' };
  const spies = (['stdout', 'stderr'] as const).map((stream) =>
    vi.spyOn(process[stream], 'write').mockImplementation((text) => {
      written[stream] += String(text);
      return true;
    }),
  );
  try {
    await command.exitOverride().parseAsync(['--run-dir', runDir, ...args], { from: 'user' });
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
  return written;
}

const names = async (...args: readonly string[]): Promise<readonly string[]> =>
  (await printed(servicesCommand(), '-o', 'name', ...args)).stdout.split('\n').slice(0, -1);

test.each<[args: readonly string[], expected: readonly string[]]>([
  [[], ['default/web', 'kube-system/dns']],
  [['web'], ['default/web']],
  [
    ['kube-system/dns', 'web'],
    ['default/web', 'kube-system/dns'],
  ],
  [['-n', 'kube-system'], ['kube-system/dns']],
  [
    ['-n', 'kube-system', '-A'],
    ['default/web', 'kube-system/dns'],
  ],
  [['-l', 'app=web,tier in (front)'], ['default/web']],
  [['-l', '!app'], ['kube-system/dns']],
])('services %j selects %j', async (args, expected) => {
  expect(await names(...args)).toEqual(expected);
});

test('an unknown name is an error, an empty selection is not', async () => {
  await expect(names('web', '-n', 'kube-system')).rejects.toMatchObject({
    code: 'NOT_FOUND',
    message: 'Service "web" not found in namespace kube-system',
  });
  await expect(names('default/dns')).rejects.toThrow('Service "default/dns" not found');
  expect(await printed(servicesCommand(), '-n', 'x')).toEqual({
    stdout: '',
    stderr: 'No services found in namespace x.\n',
  });
  expect(await printed(backendsCommand(), '-l', 'app=x', '-o', 'json')).toEqual({
    stdout: '{\n  "apiVersion": "fairlead.io/v1",\n  "kind": "BackendList",\n  "items": []\n}\n',
    stderr: '',
  });
});

test('tables: no namespace column for a single namespace, and optional headers', async () => {
  const lines = (text: string): string[] =>
    text.split('\n').map((line) => line.replace(/ +/g, ' '));
  const { stdout } = await printed(backendsCommand(), '-n', 'default');
  expect(lines(stdout)).toEqual([
    'NAME PORT BACKEND ENDPOINT STATE CONNECTIONS OPEN',
    'web http 10.1.1.5:8080 active in sync 5 2',
    '',
  ]);
  const bare = await printed(backendsCommand(), '--no-headers');
  expect(lines(bare.stdout)[0]).toBe('default web http 10.1.1.5:8080 active in sync 5 2');
});

test('wide: both sets, policies, affinity, terminating endpoints, limits and a measured rate', async () => {
  const { stdout } = await printed(servicesCommand(), '-o', 'wide', 'web');
  const [header = '', clusterIp = '', nodePort = ''] = stdout.split('\n');
  const cells = (line: string): string[] => line.split(/ {2,}/);
  const of = (line: string): Record<string, string> =>
    Object.fromEntries(cells(header).map((title, at) => [title, cells(line)[at] ?? '']));
  expect(of(clusterIp)).toMatchObject({
    BACKENDS: '2/2',
    STATE: 'in sync',
    REFUSED: '1',
    DROPPED: '2',
    PACKETS: '12/9',
    BYTES: '4Ki/1Mi',
    'SOURCE-RANGES': '192.0.2.0/24,198.51.100.7/32',
    AFFINITY: '600s',
    ALGORITHM: 'weighted-random',
    WEIGHTS: '10.1.1.5:8080=3,10.1.3.5:8080=0',
    'INT-POLICY': 'Cluster',
    'EXT-POLICY': 'Local',
    'INT-BACKENDS': '10.1.1.5:8080,10.1.2.5:8080',
    'EXT-BACKENDS': '-',
    TERMINATING: '10.1.3.5:8080',
    'NOT-SERVED': '-',
  });
  // Three rows a reading: each has grown by 300 in about a second.
  expect(Number(of(clusterIp)['NEW/S'])).toBeGreaterThan(150);
  expect(Number(of(clusterIp)['NEW/S'])).toBeLessThanOrEqual(301);
  expect(of(nodePort)).toMatchObject({
    'EXT-BACKENDS': '10.1.1.5:8080',
    'NOT-SERVED': 'bpf: packets from outside',
  });
});

test('an empty namespace is an error', async () => {
  await expect(printed(servicesCommand().exitOverride(), '-n', '')).rejects.toThrow(
    "'-n, --namespace <namespace>' argument '' is invalid. It must not be empty",
  );
});

test('jsonpath fills a template, and one newline ends it', async () => {
  const template = 'jsonpath={range .items[*]}{.name}={.kernelState}{"\\n"}{end}';
  const { stdout } = await printed(servicesCommand(), '-o', template);
  expect(stdout).toBe('web=ok\nweb=ok\ndns=missing\n');
});

test('what a dataplane does not count is `-`, also the rate, and not in JSON', async () => {
  const uncounted = join(runDir, 'uncounted');
  const agent = await serveSocket(uncounted, {
    '/v1/services': () => [UNCOUNTED_SERVICE],
    '/v1/backends': () => [UNCOUNTED_BACKEND],
  });
  try {
    const of = async (command: Command, ...args: readonly string[]) => {
      const { stdout } = await printed(command, '--run-dir', uncounted, ...args);
      return stdout;
    };
    const services = cellsOf(await of(servicesCommand(), '-o', 'wide'));
    expect(services).toMatchObject({ CONNECTIONS: '-', REFUSED: '-', DROPPED: '-', 'NEW/S': '-' });
    const backends = cellsOf(await of(backendsCommand(), '-o', 'wide'));
    expect(backends).toMatchObject({ CONNECTIONS: '-', OPEN: '-', 'NEW/S': '-', ID: '-' });
    expect(JSON.parse(await of(servicesCommand(), '-o', 'json'))).toMatchObject({
      items: [UNCOUNTED_SERVICE],
    });
    expect(await of(servicesCommand(), '-o', 'json')).not.toMatch(/connections|newPerSecond|null/);
    expect(await of(servicesCommand(), '-o', 'yaml')).not.toMatch(/connections|newPerSecond|null/);
  } finally {
    agent.close();
  }
});

/** Of the first row, by title. */
function cellsOf(text: string): Readonly<Record<string, string>> {
  const [titles = [], cells = []] = text.split('\n').map((line) => line.split(/ {2,}/));
  return Object.fromEntries(titles.map((title, at) => [title, cells[at] ?? '']));
}
