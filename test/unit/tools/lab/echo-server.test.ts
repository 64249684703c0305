// SPDX-License-Identifier: Apache-2.0
// The server of the lab's pods survives whatever its clients do.
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Child, start } from '../../../../src/sys/exec.ts';
import { toolPath } from '../../../../tools/lab/sandbox.ts';

let port: number;
let server: Child;

beforeAll(async () => {
  const probe = createServer().listen(0);
  await once(probe, 'listening');
  port = (probe.address() as { port: number }).port;
  probe.close();
  await once(probe, 'close');
  await new Promise((resolve) => {
    const argv = [toolPath('lab/echo-server.js'), 'pod', String(port)];
    server = start(process.execPath, argv, { onStdoutLine: resolve });
  });
});
afterAll(async () => {
  server.kill('SIGKILL');
  await server.exited;
});

/** A connection that has been greeted. */
async function greeted(): Promise<{ socket: Socket; greeting: string }> {
  const socket = connect({ host: '127.0.0.1', port });
  const [greeting] = await once(createInterface({ input: socket }), 'line');
  return { socket, greeting };
}

test('a connection reset by its client does not affect others', async () => {
  const { socket } = await greeted();
  socket.resetAndDestroy();
  await once(socket, 'close');
  const next = await greeted();
  expect(JSON.parse(next.greeting)).toMatchObject({ backend: 'pod' });
  next.socket.destroy();
});
