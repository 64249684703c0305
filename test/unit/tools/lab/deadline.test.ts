// SPDX-License-Identifier: Apache-2.0
// A client that was stopped for longer than its timeout: the answer that has come meanwhile counts.
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { exchange } from '../../../../tools/lab/client/exchange.ts';
import { openSocket } from '../../../../tools/lab/client/held-socket.ts';
import type { Target } from '../../../../tools/lab/client/protocol.ts';

/** In a thread of its own, which answers while this one stands still, and counts its answers; it never answers `silence`. */
const SERVER = `
  const { parentPort, workerData } = require('node:worker_threads');
  const answer = (text) => JSON.stringify({ backend: 'b', client: { address: '', port: 0 }, text });
  const sent = () => { Atomics.add(workerData, 0, 1); Atomics.notify(workerData, 0); };
  const tcp = require('node:net').createServer((socket) => {
    socket.on('error', () => undefined); // A client that gave up.
    socket.write(answer() + '\\n', sent);
    socket.on('data', (data) => socket.write(answer(data.toString().trim()) + '\\n', sent));
  }).listen(0, '127.0.0.1', () => {
    const udp = require('node:dgram').createSocket('udp4');
    udp.on('message', (data, { address, port }) => {
      if (data.toString() !== 'silence') udp.send(answer(data.toString()), port, address, sent);
    });
    udp.bind(tcp.address().port, '127.0.0.1', () => parentPort.postMessage(tcp.address().port));
  });`;
const TIMEOUT_MS = 5;
const LONG_MS = 60_000;

const answers = new Int32Array(new SharedArrayBuffer(4));
let server: Worker;
let targetOf: (protocol: 'TCP' | 'UDP') => Target;
beforeAll(async () => {
  server = new Worker(SERVER, { eval: true, workerData: answers });
  const [port] = (await once(server, 'message')) as [number];
  targetOf = (protocol) => ({ protocol, address: '127.0.0.1', port, isConnected: true });
});
afterAll(() => server?.terminate());
beforeEach(() => void Atomics.store(answers, 0, 0));

/** This thread stands still, as on a machine with other work, until the timeout is over and so many answers are there. */
function standStill(count: number): void {
  const fromMs = performance.now();
  for (let seen = 0; seen < count; seen = Atomics.load(answers, 0)) {
    expect(Atomics.wait(answers, 0, seen, LONG_MS)).not.toBe('timed-out');
  }
  while (performance.now() < fromMs + 2 * TIMEOUT_MS);
}

test('a new connection', async () => {
  const answer = exchange(targetOf('TCP'), TIMEOUT_MS);
  await new Promise((resolve) => process.nextTick(resolve)); // Then Node connects.
  standStill(1);
  expect(await answer).toMatchObject({ kind: 'answered', backend: 'b' });
});

test.each(['TCP', 'UDP'] as const)('a request on an open socket, %s', async (protocol) => {
  const socket = await openSocket(targetOf(protocol), LONG_MS);
  const greetings = protocol === 'TCP' ? 1 : 0;
  const answer = socket.talk('again', TIMEOUT_MS);
  standStill(greetings + 1);
  expect(await answer).toMatchObject({ kind: 'answered', text: 'again' });
  socket.close();
});

test('no answer: a timeout', async () => {
  const socket = await openSocket(targetOf('UDP'), LONG_MS);
  expect(await socket.talk('silence', TIMEOUT_MS)).toMatchObject({
    kind: 'failed',
    code: 'TIMEOUT',
  });
  socket.close();
});
