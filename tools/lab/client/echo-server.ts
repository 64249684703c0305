// SPDX-License-Identifier: Apache-2.0
// The program in a server pod: `echo-server.js NAME PORT...`. Every TCP connection is greeted, and every
// line or datagram answered, with the server's name and the client address it saw. IPv4 and IPv6 sockets
// are separate, so that an address is reported as the family it came in. Prints `ready` once.
// `echo-server.js @ ADDRESS/PORT...` is a server at each of these addresses, which is its name: `10.1.1.5:8080`.
import { createSocket, type SocketType } from 'node:dgram';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import type { Echo, SocketAddress } from './protocol.ts';

function echoText(backend: string, client: SocketAddress, text?: string): string {
  const echo: Echo = text === undefined ? { backend, client } : { backend, client, text };
  return `${JSON.stringify(echo)}\n`;
}

function greet(name: string, socket: Socket): void {
  const client = { address: socket.remoteAddress ?? '', port: socket.remotePort ?? 0 };
  // A connection reset by the client is not an error of the server.
  socket.on('error', () => socket.destroy());
  socket.write(echoText(name, client));
  // No readline for each connection: most of them say nothing, and it would be a fifth of the work.
  let rest = '';
  socket.on('data', (chunk) => {
    const lines = (rest + chunk.toString()).split(/\r?\n/);
    rest = lines.pop() ?? '';
    for (const text of lines) {
      if (socket.writable) socket.write(echoText(name, client, text));
    }
  });
}

async function serveTcp(name: string, host: string, port: number): Promise<void> {
  const server = createServer({ noDelay: true }, (socket) => greet(name, socket));
  server.listen({ host, port, ipv6Only: true, backlog: 4096 });
  await once(server, 'listening');
}

async function serveUdp(
  name: string,
  type: SocketType,
  port: number,
  address?: string,
): Promise<void> {
  const socket = createSocket({ type, ipv6Only: type === 'udp6' });
  socket.on('message', (datagram, { address: from, port: clientPort }) => {
    const client = { address: from, port: clientPort };
    const answer = echoText(name, client, datagram.toString('utf8').trim());
    // The client may be gone; the error of its closed port is ignored.
    socket.send(answer, clientPort, from, () => undefined);
  });
  socket.bind({ port, ...(address !== undefined && { address }) });
  await once(socket, 'listening');
}

async function serveAt(at: string): Promise<void> {
  const cut = at.lastIndexOf('/');
  const [address, port] = [at.slice(0, cut), Number(at.slice(cut + 1))];
  const isIpv6 = address.includes(':');
  const name = isIpv6 ? `[${address}]:${port}` : `${address}:${port}`;
  await Promise.all([
    serveTcp(name, address, port),
    serveUdp(name, isIpv6 ? 'udp6' : 'udp4', port, address),
  ]);
}

const [name = 'unnamed', ...ports] = process.argv.slice(2);
await Promise.all(
  name === '@'
    ? ports.map(serveAt)
    : ports
        .map(Number)
        .flatMap((port) => [
          serveTcp(name, '0.0.0.0', port),
          serveTcp(name, '::', port),
          serveUdp(name, 'udp4', port),
          serveUdp(name, 'udp6', port),
        ]),
);
process.stdout.write('ready\n');
