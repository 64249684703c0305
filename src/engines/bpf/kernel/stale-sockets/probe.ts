// SPDX-License-Identifier: Apache-2.0
// Whether SOCK_DESTROY works, tried with a UDP socket of this process on loopback. Only the kernel's answer tells:
// without the module for UDP it is the same as for a socket that does not exist.
import { createSocket, type Socket } from 'node:dgram';
import { addressBytes } from '../../../../lib/address-bytes.ts';
import { destroySockets } from '../../../../sys/native.ts';
import { encodeDestroyRequests } from '../../stale-sockets/socket.ts';

const LOOPBACK = '127.0.0.1';

/** Rejects if it does not work. */
export async function destroyOwnSocket(): Promise<void> {
  const socket = createSocket('udp4');
  socket.on('error', () => undefined);
  try {
    const port = await connectToItself(socket);
    const end = { address: wide(LOOPBACK), port };
    const [error] = await destroySockets(
      encodeDestroyRequests([
        {
          cookie: 0n,
          device: 0,
          socketFamily: 'IPv4',
          protocol: 'UDP',
          local: end,
          backend: end,
        },
      ]),
    );
    if (error === 'EOPNOTSUPP') throw new Error('CONFIG_INET_DIAG_DESTROY is not set');
    if (error !== undefined) throw new Error(error);
  } finally {
    socket.close();
  }
}

const connectToItself = (socket: Socket): Promise<number> =>
  new Promise((resolve, reject) => {
    socket.once('error', reject);
    socket.bind(0, LOOPBACK, () => {
      const { port } = socket.address();
      socket.connect(port, LOOPBACK, (error?: Error) => (error ? reject(error) : resolve(port)));
    });
  });

/** v4-mapped. */
function wide(address: string): Uint8Array {
  const bytes = new Uint8Array(16).fill(0xff, 10, 12);
  bytes.set(addressBytes(address, 'IPv4'), 12);
  return bytes;
}
