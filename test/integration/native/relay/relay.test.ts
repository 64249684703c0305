// SPDX-License-Identifier: Apache-2.0
// The relay of the addon: bytes both ways at any speed, ends, resets, a backend that does not answer, and nothing left behind.
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { openRelay } from '../../../../src/sys/native.ts';
import { until } from '../../../support/until.ts';
import { endOfChild } from '../support/child.ts';
import { caught } from '../support/errors.ts';
import { collectLeft } from '../support/garbage.ts';
import { descriptorCount } from '../support/resources.ts';
import { closeAll, dial, echo, endOf, relayTo, serve, stuckServer, tracked } from './over-relay.ts';

afterEach(closeAll);

const digestOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

async function digestUntilEnd(socket: Socket): Promise<string> {
  const hash = createHash('sha256');
  for await (const part of socket) hash.update(part as Buffer);
  return hash.digest('hex');
}

test('bytes arrive as they were sent, spliced or copied, and after the end of the other direction', async () => {
  const { port } = relayTo(await echo());
  for (const size of [0, 1, 1000, 32 << 10, (32 << 10) + 1, 20_000_003]) {
    const bytes = randomBytes(size);
    const socket = await dial(port);
    const echoed = digestUntilEnd(socket);
    for (let at = 0; at < size; at += 1_000_003) socket.write(bytes.subarray(at, at + 1_000_003));
    socket.end();
    expect(await echoed).toBe(digestOf(bytes));
  }
});

test('many connections at once keep their bytes apart', async () => {
  const { port, seen } = relayTo(await echo());
  const all = Array.from({ length: 200 }, async () => {
    const bytes = randomBytes(100_000);
    const socket = await dial(port);
    const echoed = digestUntilEnd(socket);
    socket.end(bytes);
    return (await echoed) === digestOf(bytes);
  });
  expect(new Set(await Promise.all(all))).toEqual(new Set([true]));
  await until(
    () => seen.filter(({ kind }) => kind === 'ended').length === 200,
    'all to have ended',
  );
});

test('a reader that stops stops the writer, and gets everything when it goes on', async () => {
  let sent = 0;
  const chunk = Buffer.alloc(1 << 20, 7);
  const TOTAL = 64;
  const port = await serve((socket) => {
    const write = (): void => {
      for (let hasRoom = true; sent < TOTAL && hasRoom; sent += 1) hasRoom = socket.write(chunk);
      if (sent === TOTAL) socket.end();
    };
    socket.on('drain', write);
    write();
  });
  const socket = await dial(relayTo(port).port);
  socket.pause();
  let before = -1;
  await until(() => {
    const isSame = sent === before;
    before = sent;
    return isSame && sent > 0;
  }, 'the writer to stop');
  expect(sent).toBeLessThan(TOTAL);
  let got = 0;
  for await (const part of socket) got += (part as Buffer).length;
  expect(got).toBe(TOTAL * chunk.length);
});

test('the backend gets the first bytes before those of the client', async () => {
  const first = Buffer.from('first;');
  const port = await serve((socket) => void socket.pipe(socket));
  const socket = await dial(relayTo(port, { first }).port);
  expect(String((await once(socket, 'data'))[0])).toBe('first;');
  socket.end('then');
  expect(String((await once(socket, 'data'))[0])).toBe('then');
});

/** The reset may come before the client is told that it is connected. */
const endAt = (port: number): Promise<string | undefined> =>
  dial(port).then(endOf, ({ code }: NodeJS.ErrnoException) => code);

test('a client that is refused is reset, and so is one whose backend refuses', async () => {
  const { port, seen } = relayTo(undefined);
  expect(await endAt(port)).toBe('ECONNRESET');
  expect(seen.map(({ kind }) => kind)).toEqual(['asked']);

  const closed = await serve(() => undefined);
  closeAll();
  const other = relayTo(closed);
  expect(await endAt(other.port)).toBe('ECONNRESET');
  await until(() => other.seen.length === 2, 'both events');
  expect(other.seen.map(({ kind }) => kind)).toEqual(['asked', 'ended']);
});

test('a backend that does not answer: the client is reset after the time for it', async () => {
  const stuck = await stuckServer();
  const { port, seen } = relayTo(stuck, { connectTimeoutMs: 200 });
  const sockets = await Promise.all(Array.from({ length: 8 }, () => dial(port)));
  // Two wait in the queue of the backend, the kernel drops the SYNs of the others.
  const ends = sockets.map(async (socket) => endOf(socket));
  await until(() => seen.filter(({ kind }) => kind === 'ended').length >= 6, 'six to time out');
  const reset = await Promise.race(ends);
  expect(reset).toBe('ECONNRESET');
});

test('beyond the most connections others are reset and counted, and served again later', async () => {
  const { port, seen } = relayTo(await echo(), { mostConnections: 2 });
  const [one, two] = [await dial(port), await dial(port)];
  for (const socket of [one, two]) {
    socket.write('x');
    await once(socket, 'data');
  }
  expect(await endOf(tracked(connect(port, '127.0.0.1')))).toBe('ECONNRESET');
  await until(() => seen.some(({ kind }) => kind === 'shed'), 'it to be counted');
  expect(seen.map(({ kind }) => kind)).toEqual(['asked', 'asked', 'shed']);
  one.end();
  await once(one, 'end');
  await until(() => seen.some(({ kind }) => kind === 'ended'), 'the first to have ended');
  const third = await dial(port);
  third.write('y');
  expect(String((await once(third, 'data'))[0])).toBe('y');
});

test('close() resets connections and leaves no descriptor and no thread', async () => {
  const backend = await echo();
  await collectLeft();
  const before = descriptorCount();
  for (let round = 0; round < 20; round += 1) {
    const { port, close } = relayTo(backend);
    const socket = await dial(port);
    socket.write(Buffer.alloc(100_000));
    // Node takes a reset that comes with bytes for an end.
    await until(() => socket.read() !== null && socket.bytesRead === 100_000, 'all to come back');
    const end = endOf(socket);
    close();
    expect(await end).toBe('ECONNRESET');
  }
  await until(() => descriptorCount() <= before, 'all descriptors to be closed');
});

test('a process that has relayed, and closed with connections open, has leaked no memory (checked by the sanitizer build)', async () => {
  const end = await endOfChild(
    async (native, _input, require) => {
      const { createServer, connect } = require('node:net') as typeof import('node:net');
      // Half of them are read by nobody: their bytes are in pipes when all ends.
      const server = createServer((socket) => {
        socket.on('error', () => undefined).write(Buffer.alloc(8 << 20));
        socket.resume();
      });
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
      const { port: backendPort } = server.address() as { port: number };
      for (let round = 0; round < 3; round += 1) {
        const relay = native.openRelay({}, (events) => {
          const answers = new Uint8Array((events.length / 32) * 88);
          const view = new DataView(answers.buffer);
          for (let at = 0; at < events.length / 32; at += 1) {
            if (events[at * 32] !== 1) continue;
            answers.set(events.subarray(at * 32 + 4, at * 32 + 8), at * 88 + 4);
            answers.set([1, 4], at * 88);
            view.setUint16(at * 88 + 2, backendPort, true);
            answers.set([127, 0, 0, 1], at * 88 + 8);
          }
          relay.answer(answers);
        });
        const { port } = relay.listen(Uint8Array.of(127, 0, 0, 1), 0);
        const sockets = Array.from({ length: 16 }, (_, index) => {
          const socket = connect(port, '127.0.0.1').on('error', () => undefined);
          if (index % 2 === 0) socket.pause();
          return socket;
        });
        const started = sockets.map((socket, index) =>
          index % 2 === 0 ? undefined : new Promise((resolve) => socket.once('data', resolve)),
        );
        await Promise.all(started);
        relay.close();
        for (const socket of sockets) socket.destroy();
      }
      server.close();
      return 'closed';
    },
    {},
    undefined,
    { ASAN_OPTIONS: 'detect_leaks=1' },
  );
  expect(end.stderr).toBe('');
  expect(end).toMatchObject({ code: 0, stdout: '{"value":"closed"}\n' });
});

test('bad arguments and closed handles are refused', () => {
  const relay = openRelay({}, () => undefined);
  expect(caught(() => relay.listen(Uint8Array.of(1, 2), 0)).code).toBe('ARGUMENT');
  expect(caught(() => relay.listen(Uint8Array.of(127, 0, 0, 1), 65_536)).code).toBe('ARGUMENT');
  expect(caught(() => relay.answer(new Uint8Array(3))).code).toBe('ARGUMENT');
  expect(caught(() => relay.listen(Uint8Array.of(192, 0, 2, 1), 1)).code).toBe('EADDRNOTAVAIL');
  const { port } = relay.listen(Uint8Array.of(127, 0, 0, 1), 0);
  expect(caught(() => relay.listen(Uint8Array.of(127, 0, 0, 1), port)).code).toBe('EADDRINUSE');
  // Of connections that do not exist.
  relay.answer(new Uint8Array(88).fill(255));
  relay.unlisten(99);
  relay.close();
  relay.close();
  expect(caught(() => relay.unlisten(1)).code).toBe('CLOSED');
  expect(caught(() => relay.listen(Uint8Array.of(127, 0, 0, 1), 0)).code).toBe('CLOSED');
});
