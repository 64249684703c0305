// SPDX-License-Identifier: Apache-2.0
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { askAgent, serveSocket, socketPath } from '../../../src/server/admin-socket.ts';

let runDir: string;
beforeEach(() => {
  runDir = mkdtempSync(join(tmpdir(), 'fairlead-socket-'));
});
afterEach(() => rmSync(runDir, { recursive: true }));

test('answers what it was given, and 404 for the rest', async () => {
  const socket = await serveSocket(runDir, { '/v1/status': () => ({ pid: 7 }) });
  expect(await askAgent(runDir, '/v1/status')).toEqual({ pid: 7 });
  expect(await askAgent(runDir, '/v2/status')).toEqual({ error: 'no such path' });
  socket.close();
  expect(existsSync(socketPath(runDir))).toBe(false);
});

test('a second agent is refused by the pid of the first', async () => {
  const socket = await serveSocket(runDir, { '/v1/status': () => ({ pid: 4711 }) });
  await expect(serveSocket(runDir, {})).rejects.toMatchObject({
    code: 'ALREADY_RUNNING',
    message: expect.stringContaining('pid 4711'),
  });
  socket.close();
});

test('what a dead agent left is replaced', async () => {
  writeFileSync(socketPath(runDir), '');
  const socket = await serveSocket(runDir, { '/v1/status': () => 1 });
  expect(await askAgent(runDir, '/v1/status')).toBe(1);
  socket.close();
});

test('no agent, and one that talks nonsense, are told apart from an answer', async () => {
  await expect(askAgent(runDir, '/v1/status')).rejects.toMatchObject({ code: 'NOT_RUNNING' });
  const server = createServer((connection) => connection.end('HTTP/1.1 200 OK\r\n\r\nnonsense'));
  await new Promise<void>((resolve) => server.listen(socketPath(runDir), resolve));
  await expect(askAgent(runDir, '/v1/status')).rejects.toMatchObject({ code: 'NOT_RUNNING' });
  server.close();
});
