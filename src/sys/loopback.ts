// SPDX-License-Identifier: Apache-2.0
// The loopback device of this process's network namespace, and real connections over it.
import { createSocket } from 'node:dgram';
import { createServer, type Socket, connect as tcpConnect } from 'node:net';
import { RTM } from './netlink/records.ts';
import { NLM_F, netlinkRequest } from './netlink/request.ts';

export const LOOPBACK_IFINDEX = 1;

const NETLINK_ROUTE = 0;
const IFF_UP = 1;

/** Throws the kernel's errno. */
export function raiseLoopback(): void {
  const body = new Uint8Array(16);
  const view = new DataView(body.buffer);
  view.setUint32(4, LOOPBACK_IFINDEX, true);
  view.setUint32(8, IFF_UP, true);
  view.setUint32(12, IFF_UP, true);
  netlinkRequest({ protocol: NETLINK_ROUTE, type: RTM.NEWLINK, flags: NLM_F.ACK, body });
}

/** Runs `work` with the port of a TCP server at `host`, which closes every connection. */
export async function withServer<T>(host: string, work: (port: number) => Promise<T>): Promise<T> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.end();
  });
  const port = await new Promise<number>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, host, () => {
      const address = server.address();
      resolve(typeof address === 'object' ? (address?.port ?? 0) : 0);
    });
  });
  try {
    return await work(port);
  } finally {
    server.close();
  }
}

export interface Peer {
  readonly address: string | undefined;
  readonly port: number | undefined;
}

/** Resolves with what getpeername() shows; rejects with the error of connect(), ETIMEDOUT after `timeoutMs`. */
export function connectOnce(host: string, port: number, timeoutMs = 1_000): Promise<Peer> {
  return new Promise((resolve, reject) => {
    const socket: Socket = tcpConnect({ host, port });
    const timer = setTimeout(
      () => socket.destroy(Object.assign(new Error('connect ETIMEDOUT'), { code: 'ETIMEDOUT' })),
      timeoutMs,
    );
    socket.once('error', (error) => {
      clearTimeout(timer);
      reject(error);
    });
    socket.once('connect', () => {
      clearTimeout(timer);
      const { remoteAddress: address, remotePort: peer } = socket;
      socket.destroy();
      resolve({ address, port: peer });
    });
  });
}

/** One datagram to a port of 127.0.0.1. */
export function sendDatagram(port: number): Promise<void> {
  const socket = createSocket('udp4');
  socket.on('error', () => undefined);
  return new Promise((resolve, reject) => {
    socket.send('probe', port, '127.0.0.1', (error) => {
      socket.close();
      if (error === null) resolve();
      else reject(error);
    });
  });
}
