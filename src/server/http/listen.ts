// SPDX-License-Identifier: Apache-2.0
// An HTTP listener on one address, with readable bind errors.
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { reasonOf } from '../../errors.ts';
import { hostPort } from '../../lib/address-bytes.ts';

export interface ListenOptions {
  /** Canonical address; `0.0.0.0` listens on IPv4 only, `::` on both families unless `isIpv6Only`. */
  readonly host: string;
  /** 0 = any free port, for tests. */
  readonly port: number;
  readonly isIpv6Only?: boolean;
  readonly onRequest: RequestListener;
}

export interface Listener {
  readonly port: number;
  /** Also closes connections. Idempotent; the port is free when it resolves. */
  close(): Promise<void>;
}

/** Replaced in tests. */
export type Listen = (options: ListenOptions) => Promise<Listener>;

/** Rejects with an Error whose message names address and reason. */
export const listenOnce: Listen = async (options) => {
  const server = await bindServer(options);
  return { port: portOf(server), close: () => closeServer(server) };
};

/** A server that has bound the address. Rejects with an Error whose message names address and reason. */
export function bindServer({
  host,
  port,
  isIpv6Only = false,
  onRequest,
}: ListenOptions): Promise<Server> {
  const server = createServer(onRequest);
  return new Promise((resolve, reject) => {
    server.once('error', (error) =>
      reject(new Error(`${hostPort(host, port)}: ${bindFailure(error)}`, { cause: error })),
    );
    server.listen({ host, port, ipv6Only: isIpv6Only }, () => {
      ignoreErrors(server);
      resolve(server);
    });
  });
}

/** The same over a socket that listens already; its descriptor is the server's, also if it rejects. */
export function adoptServer(descriptor: number, onRequest: RequestListener): Promise<Server> {
  const server = createServer(onRequest);
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ fd: descriptor }, () => {
      ignoreErrors(server);
      resolve(server);
    });
  });
}

/** An accept that fails must not end the agent. */
function ignoreErrors(server: Server): void {
  server.removeAllListeners('error');
  server.on('error', () => {});
}

export const portOf = (server: Server): number => (server.address() as AddressInfo).port;

/** Also closes connections. */
export function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is in use by another process (is kube-proxy still running on this node?)',
  EADDRNOTAVAIL: 'no interface of this machine has the address',
  EACCES: 'ports below 1024 need CAP_NET_BIND_SERVICE',
  EAFNOSUPPORT: 'IPv6 is disabled on this node',
};

function bindFailure(error: NodeJS.ErrnoException): string {
  return REASONS[error.code ?? ''] ?? reasonOf(error);
}
