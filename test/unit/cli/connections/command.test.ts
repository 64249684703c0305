// SPDX-License-Identifier: Apache-2.0
// `fairlead connections` over tables in memory: what is listed, in every format, and what is dropped.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { connectionsCommand } from '../../../../src/cli/commands/connections.ts';
import { type AgentSocket, serveSocket } from '../../../../src/server/admin-socket.ts';
import { UDP } from '../../../support/dataplane/conn-bytes.ts';
import {
  type ConnNode,
  createConnNode,
  DNS,
  putSocket,
  WEB,
  WEB6,
} from '../../../support/dataplane/conn-node.ts';

/** Seconds of CLOCK_MONOTONIC: `process.hrtime` is replaced. */
const NOW = 1_000_000;

let runDir = '';
let agent: AgentSocket;
let node: ConnNode;

beforeAll(async () => {
  runDir = mkdtempSync(join(tmpdir(), 'fairlead-connections-'));
  agent = await serveSocket(runDir, {
    '/v1/services': () => [
      { namespace: 'default', name: 'web', labels: 'app=web' },
      { namespace: 'default', name: 'dns', labels: 'app=dns' },
    ],
  });
});
afterAll(() => {
  agent.close();
  rmSync(runDir, { recursive: true });
});
beforeEach(() => {
  node = createConnNode();
  const web = { frontend: WEB, backend: '10.1.1.5:8080', ids: node.idsOf('10.1.1.5:8080') };
  node.conns.put({
    ...{ ...web, client: '203.0.113.9:41234', snat: '10.1.0.1:41234' },
    ...{ bornSeconds: NOW - 754, seenSeconds: NOW - 3 },
    ...{ toBackend: [1200, 93_000], toClient: [2300, 3_400_000] },
  });
  node.conns.put({
    ...{ ...web, client: '198.51.100.7:51000', state: 'new', bornSeconds: NOW - 1 },
    ...{ toBackend: [1, 60], isHalfOpen: true },
  });
  node.conns.put({
    ...{ client: '[2001:db8::9]:999', frontend: WEB6, backend: '[fd00:10::5]:8080' },
    ...{
      ids: node.idsOf('[fd00:10::5]:8080'),
      bornSeconds: NOW - 200_000,
      ...{ state: 'fin-client', isMasqueraded: true },
    },
    ...{ toBackend: [20, 1800], toClient: [18, 25_000] },
  });
  node.conns.put({
    ...{ protocol: UDP, client: '203.0.113.9:5353', frontend: DNS, backend: '10.1.1.99:53' },
    ...{ ids: { ...node.idsOf('10.1.1.53:53'), generation: 9 }, bornSeconds: NOW - 45 },
    ...{ toBackend: [4, 300], toClient: [4, 900] },
  });
  putSocket(node, 0x2a1, WEB, '10.1.2.5:8080');
  vi.spyOn(process.hrtime, 'bigint').mockReturnValue(BigInt(NOW) * 1_000_000_000n);
});

async function printed(args: readonly string[], hasPackets = true) {
  const written = { stdout: '', stderr: '' };
  const spies = (['stdout', 'stderr'] as const).map((stream) =>
    vi.spyOn(process[stream], 'write').mockImplementation((text) => {
      written[stream] += String(text);
      return true;
    }),
  );
  const command = connectionsCommand(() => node.connections(hasPackets)).exitOverride();
  try {
    await command.parseAsync(['--run-dir', runDir, '--bpf-root', '/b', ...args], { from: 'user' });
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
  return written;
}

const clients = async (...args: readonly string[]): Promise<readonly string[]> =>
  (await printed(['--no-headers', ...args])).stdout
    .split('\n')
    .slice(0, -1)
    .map((line) => line.split(/ {2,}/)[3] ?? '');

describe('tables', () => {
  test.each([
    ['table', []],
    ['wide', ['-o', 'wide']],
    ['namespace', ['-n', 'default', '--limit', '2']],
  ])('%s', async (name, args) => {
    const { stdout, stderr } = await printed(args);
    await expect(`${stdout}--- stderr\n${stderr}`).toMatchFileSnapshot(`golden/${name}.txt`);
  });

  test('JSON', async () => {
    const { stdout } = await printed(['-o', 'json', '--client', '203.0.113.9:41234']);
    await expect(stdout).toMatchFileSnapshot('golden/json.txt');
  });

  test('names', async () => {
    expect((await printed(['-o', 'name', '--state', 'stale,open'])).stdout.split('\n')).toEqual([
      'UDP/203.0.113.9:5353->192.0.2.53:53',
      'TCP/sk:2a1->192.0.2.10:80',
      '',
    ]);
  });
});

describe('filters', () => {
  test.each<[args: readonly string[], expected: readonly string[]]>([
    [['dns'], ['203.0.113.9:5353']],
    [['default/dns', '--backend', '10.1.1.5'], []],
    [
      ['--client', '203.0.113.0/24', '--origin', 'packet'],
      ['203.0.113.9:5353', '203.0.113.9:41234'],
    ],
    [['--backend', '10.1.2.5:8080'], ['sk:2a1']],
    [['--state', 'new'], ['198.51.100.7:51000']],
    [['--state', 'half-closed'], ['[2001:db8::9]:999']],
    [['-l', 'app=dns'], ['203.0.113.9:5353']],
    [['--origin', 'socket'], ['sk:2a1']],
  ])('%j', async (args, expected) => {
    expect(await clients(...args)).toEqual(expected);
  });

  test('what is not known or not valid is refused', async () => {
    await expect(printed(['db'])).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: 'Service "db" not found',
    });
    await expect(printed(['web', '-n', 'x'])).rejects.toThrow('"web" not found in namespace x');
    await expect(printed(['--state', 'open,gone'])).rejects.toThrow('Allowed states are new,');
    await expect(printed(['--limit', '0'])).rejects.toThrow('not a number of connections');
    await expect(printed(['--client', 'web'])).rejects.toThrow('is not an address');
    await expect(printed(['--dry-run'])).rejects.toThrow('--dry-run needs --drop-stale');
    await expect(printed(['--drop-stale', '-w'])).rejects.toThrow('cannot be used with');
    await expect(
      connectionsCommand(() => node.connections()).parseAsync(
        ['--run-dir', '/nowhere', '--bpf-root', '/nowhere', '-l', 'a'],
        { from: 'user' },
      ),
    ).rejects.toThrow('labels are known only to a running agent');
  });

  test('nothing found is no error', async () => {
    expect(await printed(['--client', '1.1.1.1'])).toEqual({
      stdout: '',
      stderr: 'No connections found.\n',
    });
  });
});

describe('without the packet layer', () => {
  test('connections of sockets are listed, and a note says why no others', async () => {
    const { stdout, stderr } = await printed(['--no-headers'], false);
    expect(stdout).toMatch(/^default +web +http +sk:2a1 /);
    expect(stdout.split('\n')).toHaveLength(2);
    expect(stderr).toBe(
      '(only connections of sockets are listed: the packet layer is not loaded: no table of connections is pinned below /b)\n',
    );
    expect((await printed(['--origin', 'socket'], false)).stderr).toBe('');
  });

  test.each([[['--origin', 'packet']], [['--drop-stale']]])('%j is refused', async (args) => {
    await expect(printed(args, false)).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message:
        'the packet layer is not loaded: no table of connections is pinned below /b, so there are no connections of packets',
    });
  });
});

describe('--drop-stale', () => {
  test('deletes and prints flows whose backend is gone; a dry run only prints', async () => {
    const line = 'UDP 203.0.113.9:5353 -> 192.0.2.53:53, backend 10.1.1.99:53';
    const dry = await printed(['--drop-stale', '--dry-run']);
    expect(dry.stdout).toBe(`would drop ${line}\nwould drop 1 connection\n`);
    expect((await printed(['--drop-stale', 'web'])).stdout).toContain('no connection has');
    const { stdout } = await printed(['--drop-stale']);
    expect(stdout).toBe(`dropped ${line}\ndropped 1 connection\n`);
    expect((await printed(['--drop-stale'])).stdout).toBe(
      'no connection has a backend that is gone\n',
    );
    expect(await clients('dns')).toEqual([]);
  });
});

test('--watch: rates are those between two readings', async () => {
  const clock = vi.spyOn(process.hrtime, 'bigint');
  let lines: readonly string[] = [];
  const stop = new Error('enough');
  const write = vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    lines = [...lines, String(text)];
    if (lines.length === 2) throw stop;
    clock.mockReturnValue(BigInt(NOW + 2) * 1_000_000_000n);
    node.conns.put({
      ...{ client: '203.0.113.9:41234', frontend: WEB, backend: '10.1.1.5:8080' },
      ...{ ids: node.idsOf('10.1.1.5:8080'), bornSeconds: NOW - 754 },
      ...{ toBackend: [1300, 93_000 + 2048], toClient: [2300, 3_400_000] },
    });
    return true;
  });
  const args = ['--bpf-root', '/b', '-w', '--no-headers', '--client', '203.0.113.9:41234'];
  await expect(
    connectionsCommand(() => node.connections()).parseAsync(args, { from: 'user' }),
  ).rejects.toBe(stop);
  write.mockRestore();
  expect(lines[0]).toContain('4.5Ki/s');
  expect(lines[1]).toMatch(/1300\/2300 +93Ki\/3\.2Mi +1Ki\/s/);
});
