// SPDX-License-Identifier: Apache-2.0
// Commands that read pinned maps, where the agent serves by iptables rules and has none.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { bypassCommand } from '../../../../src/cli/commands/bypass.ts';
import { connectionsCommand } from '../../../../src/cli/commands/connections.ts';
import { type AgentSocket, serveSocket } from '../../../../src/server/admin-socket.ts';

let runDir = '';
let agent: AgentSocket | undefined;

beforeEach(() => {
  runDir = mkdtempSync(join(tmpdir(), 'fairlead-rules-'));
});
afterEach(() => {
  agent?.close();
  agent = undefined;
  rmSync(runDir, { recursive: true });
});

const COMMANDS = {
  connections: () => connectionsCommand(),
  'bypass list': () => bypassCommand(),
  'bypass remove 7': () => bypassCommand(),
  'bypass remove --gone': () => bypassCommand(),
} as const;
const NAMES = Object.keys(COMMANDS) as readonly (keyof typeof COMMANDS)[];

const runOf = (name: keyof typeof COMMANDS) =>
  COMMANDS[name]()
    .exitOverride()
    .parseAsync(
      [
        ...name.split(' ').slice(1),
        ...['--run-dir', runDir, '--bpf-root', join(runDir, 'no-such-root')],
      ],
      { from: 'user' },
    );

const NO_MAPS = /^no maps are pinned below .*: no agent has run with this --bpf-root, or it was/;

test.each(NAMES)('%s: without an agent, there are no maps', async (name) => {
  await expect(runOf(name)).rejects.toMatchObject({
    code: 'NOT_FOUND',
    message: expect.stringMatching(NO_MAPS),
  });
});

test.each(NAMES)('%s: of an agent with other pins, there are no maps', async (name) => {
  agent = await serveSocket(runDir, { '/v1/status': () => ({ dataplanes: ['bpf', 'iptables'] }) });
  await expect(runOf(name)).rejects.toThrow(NO_MAPS);
});

test('connections: of an agent that has not started yet, there are no maps', async () => {
  agent = await serveSocket(runDir, { '/v1/status': () => ({ pid: 1, isReady: false }) });
  await expect(runOf('connections')).rejects.toThrow(NO_MAPS);
});

test.each([
  [
    'connections',
    'Services are served by iptables on this node: their connections are kept by conntrack, and `conntrack -L --dst-nat` lists them',
  ],
  [
    'bypass list',
    'Services are served by iptables on this node, whose rules translate the packets of every cgroup: none can be bypassed',
  ],
] as const)('%s: of an agent on iptables', async (name, message) => {
  agent = await serveSocket(runDir, { '/v1/status': () => ({ dataplanes: ['iptables'] }) });
  await expect(runOf(name)).rejects.toMatchObject({ code: 'NOT_FOUND', exitCode: 4, message });
});
