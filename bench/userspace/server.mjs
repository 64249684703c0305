// SPDX-License-Identifier: Apache-2.0
// Of relay.bench.mjs: one port sends as much as is read, the other answers each request of 64 bytes with 256.
import { createServer } from 'node:net';

const CHUNK = Buffer.alloc(1 << 20);
const REQUEST_BYTES = 64;
const ANSWER = Buffer.alloc(256);

function send(socket) {
  while (!socket.destroyed && socket.write(CHUNK));
}

const bulk = createServer((socket) => {
  socket.on('error', () => undefined).on('drain', () => send(socket));
  send(socket);
});
const requests = createServer({ noDelay: true }, (socket) => {
  let got = 0;
  socket.on('error', () => undefined);
  socket.on('data', ({ length }) => {
    for (got += length; got >= REQUEST_BYTES; got -= REQUEST_BYTES) socket.write(ANSWER);
  });
});

const listening = (server) =>
  new Promise((resolve) =>
    server.listen(0, '127.0.0.1', 4096, () => resolve(server.address().port)),
  );

process.send({ ports: { bulk: await listening(bulk), requests: await listening(requests) } });
process.once('disconnect', () => process.exit(0));
