// SPDX-License-Identifier: Apache-2.0
// Sockets that stay open between requests, to see what an established flow does while backends change.
// Runs inside client pods.
import type { Socket as TcpSocket } from 'node:net';
import { createInterface } from 'node:readline';
import { startDeadline } from './deadline.ts';
import {
  connectUdp,
  createUdp,
  dialTcp,
  errorCode,
  failure,
  sayUdp,
  tcpAnswer,
} from './exchange.ts';
import type { Answer, SocketAddress, Target } from './protocol.ts';

export interface HeldSocket {
  /** TCP: the greeting. Without it there is no connection to use. */
  readonly greeting?: Answer;
  talk(text: string, timeoutMs: number, to?: SocketAddress): Promise<Answer>;
  close(): void;
}

export function openSocket(target: Target, timeoutMs: number): Promise<HeldSocket> {
  return target.protocol === 'TCP' ? openTcp(target, timeoutMs) : openUdp(target);
}

async function openTcp(target: Target, timeoutMs: number): Promise<HeldSocket> {
  const socket = dialTcp(target);
  const nextLine = lineReader(socket);
  const greeting = await nextLine(timeoutMs);
  return {
    greeting,
    talk: (text, talkTimeoutMs) => {
      if (socket.writable) socket.write(`${text}\n`);
      return nextLine(talkTimeoutMs);
    },
    close: () => socket.destroy(),
  };
}

/** Answers are read one at a time: the next line, or how the connection ended. */
function lineReader(socket: TcpSocket): (timeoutMs: number) => Promise<Answer> {
  let ended: string | undefined;
  let take: ((line: string | undefined) => void) | undefined;
  const deliver = (line?: string): void => take?.(line);
  const lines = createInterface({ input: socket });
  // readline emits the socket's errors again, and an unhandled one ends the program.
  lines.on('error', () => undefined);
  lines.on('line', deliver);
  socket.on('error', (error) => {
    ended = errorCode(error);
    deliver();
  });
  socket.on('close', () => {
    ended ??= 'CLOSED';
    deliver();
  });
  return (timeoutMs) =>
    new Promise((resolve) => {
      const startedMs = performance.now();
      const cancel = startDeadline(timeoutMs, deliver);
      take = (line) => {
        cancel();
        take = undefined;
        if (line === undefined) resolve(failure(ended ?? 'TIMEOUT', startedMs));
        else resolve(tcpAnswer(socket, line, startedMs));
      };
      if (ended !== undefined) deliver();
    });
}

async function openUdp(target: Target): Promise<HeldSocket> {
  const socket = createUdp(target);
  const startedMs = performance.now();
  let refusal: Answer | undefined;
  if (target.isConnected) {
    await connectUdp(socket, target).catch((error: unknown) => {
      refusal = failure(errorCode(error), startedMs);
    });
  }
  const usualTo = target.isConnected ? undefined : target;
  return {
    ...(refusal === undefined ? {} : { greeting: refusal }),
    talk: (text, timeoutMs, to) => sayUdp(socket, text, to ?? usualTo, timeoutMs),
    close: () => socket.close(),
  };
}
