// SPDX-License-Identifier: Apache-2.0
// A TCP listener by Node's streams, where the addon cannot be loaded: each connection that comes in gets one to the backend that is
// chosen for it. To close it ends no connection.
import { connect, createServer, type Server, type Socket } from 'node:net';
import type { Backend } from '../../../plan/types.ts';
import type { Connecting } from '../choice/verdict.ts';
import { codeOf } from './failure.ts';
import { type Shortage, shortageOf } from './files.ts';
import { relay } from './relay.ts';

/** A choice that is counted: `ended` is called once. */
export type Chosen =
  | {
      readonly kind: 'forward';
      readonly backend: Backend;
      readonly ended: () => void;
      /** What the backend gets before the client's bytes. */
      readonly first?: Uint8Array;
    }
  | { readonly kind: 'reject' | 'drop' }
  /** No files are left. */
  | { readonly kind: 'full' };

export interface Bound {
  readonly port: number;
  close(): void;
}

export interface ListenAddress {
  readonly address: string;
  /** 0: any. */
  readonly port: number;
}

/**
 * Rejects with the error of the system call.
 * @param shed called for each connection that is reset because the process lacks something for it
 */
export type ListenTcp = (
  place: ListenAddress,
  choose: (connecting: Connecting) => Chosen,
  shed: (why: Shortage) => void,
) => Promise<Bound>;

const BACKLOG = 4096;
/** As long as the kernel tries with tcp_syn_retries 5; a client gives up sooner. */
const CONNECT_MS = 60_000;

export const streamedTcp: ListenTcp = async ({ address, port }, choose, shed) => {
  const server = createServer(
    { allowHalfOpen: true, noDelay: true, keepAlive: true, pauseOnConnect: true },
    (client) => accepted(client, choose, shed),
  );
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host: address, port, ipv6Only: true, backlog: BACKLOG, exclusive: true }, () =>
      resolve(),
    );
  });
  // Of single connections, as when files run out: others go on.
  server.on('error', (error) => report(error, shed));
  return { port: portOf(server), close: () => void server.close() };
};

function portOf(server: Server): number {
  const address = server.address();
  return typeof address === 'object' ? (address?.port ?? 0) : 0;
}

function report(error: unknown, shed: (why: Shortage) => void): void {
  const shortage = shortageOf(codeOf(error));
  if (shortage !== undefined) shed(shortage);
}

function accepted(
  client: Socket,
  choose: (connecting: Connecting) => Chosen,
  shed: (why: Shortage) => void,
): void {
  const { remoteAddress, remotePort, localAddress } = client;
  const lost = (): void => void client.destroy();
  client.on('error', lost);
  if (remoteAddress === undefined || remotePort === undefined || localAddress === undefined) {
    lost(); // It has gone already.
    return;
  }
  const chosen = choose({ client: remoteAddress, clientPort: remotePort, local: localAddress });
  if (chosen.kind === 'full') shed('files');
  if (chosen.kind !== 'forward') {
    client.resetAndDestroy();
    return;
  }
  const { backend: to, ended, first } = chosen;
  const backend = connect({
    ...{ host: to.address, port: to.port, allowHalfOpen: true },
    // A peer that has vanished would cost two files for ever.
    ...{ noDelay: true, keepAlive: true },
  });
  const failed = (error: Error): void => {
    report(error, shed);
    client.resetAndDestroy();
    backend.destroy();
    ended();
  };
  backend.setTimeout(CONNECT_MS, () => backend.destroy(new Error('ETIMEDOUT')));
  backend.once('error', failed);
  const gone = (): void => void backend.destroy(new Error('the client is gone'));
  client.once('close', gone);
  backend.once('connect', () => {
    backend.setTimeout(0);
    backend.off('error', failed);
    client.off('close', gone);
    client.off('error', lost);
    if (first !== undefined) backend.write(first);
    relay(client, backend, ended);
  });
}
