// SPDX-License-Identifier: Apache-2.0
// Reads a connection line by line. When the other side ends it, this side does, too: connections of an HTTP server
// stay half open otherwise.
import type { Socket } from 'node:net';

/** Longer ones are none of the protocol. */
const MAX_CHARACTERS = 1_000;

export function onLines(socket: Socket, heard: (line: string) => void): void {
  let rest = '';
  socket.on('data', (bytes: Buffer) => {
    // They are ASCII; setEncoding() is not allowed on the sockets of a server.
    const lines = (rest + bytes.toString('latin1')).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) heard(line);
    if (rest.length > MAX_CHARACTERS) socket.destroy();
  });
  socket.on('end', () => socket.destroy());
  socket.on('error', () => undefined); // It closes then, too.
}
