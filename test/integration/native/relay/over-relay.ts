// SPDX-License-Identifier: Apache-2.0
// A relay with one listener, all of whose connections go to one backend; everything ends with the test.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import {
  type RelayAnswer,
  type RelayEvent,
  relayAnswers,
  relayEvents,
} from '../../../../src/engines/userspace/kernel/relay-records.ts';
import { openRelay } from '../../../../src/sys/native.ts';

const closers: (() => void)[] = [];

export function closeAll(): void {
  for (const close of closers.splice(0)) close();
}

export function tracked<T extends Socket | Server>(resource: T): T {
  closers.push(() => {
    if ('destroy' in resource) resource.destroy();
    else resource.close();
  });
  return resource;
}

export interface Opened {
  readonly port: number;
  readonly seen: RelayEvent[];
  readonly close: () => void;
}

export type Options = Parameters<typeof openRelay>[0] & Pick<RelayAnswer, 'first'>;

export function relayTo(backendPort: number | undefined, options: Options = {}): Opened {
  const { first, ...own } = options;
  const seen: RelayEvent[] = [];
  const backend =
    backendPort === undefined
      ? undefined
      : { address: '127.0.0.1', port: backendPort, isLocal: true, isTerminating: false };
  const relay = openRelay(own, (bytes) => {
    const events = relayEvents(bytes);
    seen.push(...events);
    const asked = events.filter(({ kind }) => kind === 'asked');
    relay.answer(relayAnswers(asked.map(({ connection }) => ({ connection, backend, first }))));
  });
  const close = (): void => relay.close();
  closers.push(close);
  const { port } = relay.listen(Uint8Array.of(127, 0, 0, 1), 0);
  return { port, seen, close };
}

export const portOf = (server: Server): number => {
  const address = server.address();
  return typeof address === 'object' ? (address?.port ?? 0) : 0;
};

export async function serve(onConnection: (socket: Socket) => void): Promise<number> {
  const server = tracked(
    createServer({ allowHalfOpen: true }, (socket) => {
      tracked(socket).on('error', () => undefined);
      onConnection(socket);
    }),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return portOf(server);
}

export const echo = (): Promise<number> => serve((socket) => void socket.pipe(socket));

export async function dial(port: number): Promise<Socket> {
  const socket = tracked(connect({ host: '127.0.0.1', port, allowHalfOpen: true }));
  await once(socket, 'connect');
  return socket;
}

/** The code of the error with which it ends; undefined: it has ended without one. */
export const endOf = (socket: Socket): Promise<string | undefined> =>
  new Promise((resolve) => {
    let code: string | undefined;
    socket.on('error', (error: NodeJS.ErrnoException) => {
      code = error.code;
    });
    socket.once('close', () => resolve(code));
    socket.resume();
  });

/** A process that listens and never accepts: once its queue is full, connections to it hang. */
export async function stuckServer(): Promise<number> {
  const program = `
    const server = require('node:net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
      process.stdout.write(String(server.address().port), () => process.kill(process.pid, 'SIGSTOP'));
    });`;
  const child: ChildProcess = spawn(process.execPath, ['-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, LD_PRELOAD: '' },
  });
  closers.push(() => void child.kill('SIGKILL'));
  if (child.stdout === null) throw new Error('no output');
  const [text] = await once(child.stdout, 'data');
  return Number(String(text));
}
