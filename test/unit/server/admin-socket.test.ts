// SPDX-License-Identifier: Apache-2.0
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
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

test('who asks again is answered by whoever serves then, whatever became of the last connection', async () => {
  const closed: Promise<unknown>[] = [];
  const server = createHttpServer((_, response) => response.end('{}'));
  server.on('connection', (socket) => closed.push(once(socket, 'close')));
  await new Promise<void>((resolve) => server.listen(socketPath(runDir), resolve));
  await askAgent(runDir, '/');
  await askAgent(runDir, '/');
  expect(closed).toHaveLength(2);
  await Promise.all(closed);
  server.close();
});

test('a second agent is refused by the pid of the first', async () => {
  const socket = await serveSocket(runDir, { '/v1/status': () => ({ pid: 4711 }) });
  await expect(serveSocket(runDir, {})).rejects.toMatchObject({
    code: 'ALREADY_RUNNING',
    message: expect.stringContaining('pid 4711'),
  });
  socket.close();
});

test('of agents that start together one serves, and the others leave its socket alone', async () => {
  const started = await Promise.allSettled(
    [1, 2, 3].map((pid) => serveSocket(runDir, { '/v1/status': () => ({ pid }) })),
  );
  const sockets = started.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  const refused = started.flatMap((one) => (one.status === 'rejected' ? [one.reason.code] : []));
  expect({ serving: sockets.length, refused }).toEqual({
    serving: 1,
    refused: ['ALREADY_RUNNING', 'ALREADY_RUNNING'],
  });
  expect(await askAgent(runDir, '/v1/status')).toHaveProperty('pid');
  for (const socket of sockets) socket.close();
  (await serveSocket(runDir, {})).close();
});

test('a lock that is kept keeps others out, and serves whoever inherits it', async () => {
  const first = await serveSocket(runDir, {});
  const lock = first.keepLock();
  first.close();
  await expect(serveSocket(runDir, {})).rejects.toMatchObject({ code: 'ALREADY_RUNNING' });
  const next = await serveSocket(runDir, { '/v1/status': () => 2 }, () => lock);
  expect(await askAgent(runDir, '/v1/status')).toBe(2);
  next.close();
  (await serveSocket(runDir, {})).close();
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

test('an agent that does not answer in time is not one that does not run', async () => {
  const server = createServer(() => undefined);
  await new Promise<void>((resolve) => server.listen(socketPath(runDir), resolve));
  const failed = await askAgent(runDir, '/v1/audit', 20).catch((error: unknown) => error);
  expect(failed).toMatchObject({ code: 'NOT_RUNNING' });
  expect(String(failed)).toMatch(/agent\.sock did not answer within 0\.02 s: it is busy/);
  server.close();
});

test('only its owner may connect', async () => {
  const socket = await serveSocket(runDir, {});
  expect(statSync(socketPath(runDir)).mode & 0o777).toBe(0o600);
  socket.close();
});

test('a long list is written in several turns of the event loop', async () => {
  let turns = 0;
  const turnsAt = new Set<number>();
  const row = (number: number) => ({
    toJSON: () => {
      turnsAt.add(turns);
      const endMs = performance.now() + 0.1;
      while (performance.now() < endMs);
      return { number };
    },
  });
  const rows = Array.from({ length: 1_001 }, (_, number) => row(number));
  const socket = await serveSocket(runDir, { '/v1/all': () => rows, '/v1/none': () => [] });
  const count = (): void => {
    turns++;
    next = setImmediate(count);
  };
  let next = setImmediate(count);
  expect(await askAgent(runDir, '/v1/all')).toEqual(rows.map((_, number) => ({ number })));
  clearImmediate(next);
  expect(turnsAt.size).toBeGreaterThanOrEqual(5);
  expect(await askAgent(runDir, '/v1/none')).toEqual([]);
  socket.close();
});

test('a route that throws is an answer, and the next one works', async () => {
  const socket = await serveSocket(runDir, {
    '/v1/status': () => {
      throw new Error('kernel');
    },
    '/v1/later': () => Promise.resolve(1),
  });
  const failed = await askAgent(runDir, '/v1/status').catch((error: unknown) => error);
  expect(failed).not.toHaveProperty('code');
  expect(String(failed)).toContain(`${socketPath(runDir)} could not answer /v1/status: kernel`);
  expect(await askAgent(runDir, '/v1/later?x=1')).toBe(1);
  expect(await askAgent(runDir, '/toString')).toEqual({ error: 'no such path' });
  socket.close();
});

test('an agent that is too busy to answer is not replaced', async () => {
  const server = createServer((connection) => connection.destroy());
  await new Promise<void>((resolve) => server.listen(socketPath(runDir), resolve));
  await expect(serveSocket(runDir, {})).rejects.toMatchObject({ code: 'ALREADY_RUNNING' });
  server.close();
});

test('without permission: said so, with its own exit code', async () => {
  chmodSync(runDir, 0o755);
  const socket = await serveSocket(runDir, { '/v1/status': () => 1 });
  const [uid, gid] = [process.geteuid?.() ?? 0, process.getegid?.() ?? 0];
  if (uid !== 0) return;
  process.setegid?.(65_534);
  process.seteuid?.(65_534);
  try {
    const refusal = {
      code: 'NO_PRIVILEGE',
      exitCode: 5,
      message: expect.stringContaining('as root'),
    };
    await expect(askAgent(runDir, '/v1/status')).rejects.toMatchObject(refusal);
    await expect(serveSocket(runDir, {})).rejects.toMatchObject({ code: 'NO_PRIVILEGE' });
    await expect(serveSocket(join(runDir, 'new'), {})).rejects.toMatchObject({
      code: 'NO_PRIVILEGE',
    });
  } finally {
    process.seteuid?.(uid);
    process.setegid?.(gid);
  }
  socket.close();
});
