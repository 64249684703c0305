// SPDX-License-Identifier: Apache-2.0
// The running agent's side of a take-over: one successor at a time is given the listeners. Until it serves, this agent answers
// on them, too, and resumes when the connection to it ends.
import type { Socket } from 'node:net';
import { reasonOf } from '../../errors.ts';
import type { Logger } from '../../log.ts';
import type { OnConnection } from '../../server/admin-socket.ts';
import type { Inherited } from '../../server/http/listener-pool.ts';
import { descriptorOf } from '../../sys/descriptor.ts';
import { sendDescriptors } from '../../sys/native.ts';
import type { Refusal } from './facts.ts';
import { onLines } from './lines.ts';
import {
  addressesText,
  controlLine,
  controlText,
  LISTENERS_PATH,
  LOCK_TEXT,
  PROTOCOL,
  type Successor,
  successorOf,
  TAKE_OVER_PATH,
} from './protocol.ts';

/** What a successor is given. */
export interface Released {
  /** Of the lock on --run-dir: while either agent has it open, no third one can start. */
  readonly lock: number;
  readonly listeners: readonly Inherited[];
}

export interface GivingParts {
  /** Why this successor cannot have it. */
  readonly refusal: (successor: Successor) => Refusal | undefined;
  /** Stops to sync and lets go of all other locks; what the kernel has stays. What listens goes on answering. */
  readonly release: (successor: Successor) => Released;
  /** The successor serves. */
  readonly given: () => void;
  /** After `release`: the successor has gone before it served. */
  readonly resume: () => void;
  readonly log: Pick<Logger, 'info' | 'warn'>;
  /** Replaced in tests. */
  readonly send?: typeof sendDescriptors;
}

/** Far less than what the kernel takes in one message, and what fits into a socket's buffer. */
const DESCRIPTORS_A_MESSAGE = 100;

/** undefined: nobody has asked; then connected, released, given. */
type Stage = 'asked' | 'released' | 'given' | undefined;

/** @returns what the admin socket is to do with connections of their own */
export function createGiving(parts: GivingParts): OnConnection {
  const { log, send = sendDescriptors } = parts;
  let stage: Stage;
  let control: Socket | undefined;
  let asker: Successor | undefined;
  let from: { readonly pid: number; readonly version: string } | undefined;

  const lost = (): void => {
    control = undefined;
    if (stage === 'given') return;
    const wasReleased = stage === 'released';
    stage = undefined;
    log.warn({ successor: from }, 'the successor is gone before it served');
    if (wasReleased) parts.resume();
  };

  const heard = (text: string): void => {
    if (controlLine(text)?.kind !== 'serves' || stage !== 'released') {
      log.warn({ successor: from }, 'protocol error from the successor');
      control?.destroy();
      return;
    }
    stage = 'given';
    log.info({ successor: from }, 'handed over, waiting for SIGTERM');
    parts.given();
  };

  const ask = (query: URLSearchParams, socket: Socket): void => {
    const successor = successorOf(query);
    const refusal = refusalOf(successor);
    if (successor === undefined || refusal !== undefined) {
      refuse(socket, refusal ?? NO_SUCCESSOR);
      return;
    }
    const { pid, version } = successor;
    asker = successor;
    from = { pid, version };
    stage = 'asked';
    control = socket;
    socket.on('close', lost);
    onLines(socket, heard);
    accept(socket);
  };

  const refusalOf = (successor: Successor | undefined): Refusal | undefined => {
    if (successor === undefined) return NO_SUCCESSOR;
    if (stage === undefined) return parts.refusal(successor);
    const reason = `another agent (pid ${from?.pid}) is taking it over`;
    return { code: 'ALREADY_RUNNING', reason };
  };

  const give = (socket: Socket): void => {
    const fd = descriptorOf(socket);
    if (stage !== 'asked' || control === undefined || asker === undefined || fd === undefined) {
      refuse(socket, NO_SUCCESSOR);
      return;
    }
    stage = 'released';
    try {
      const { lock, listeners } = parts.release(asker);
      send(fd, Buffer.from(LOCK_TEXT), [lock]);
      for (const some of chunksOf(listeners)) {
        const text = Buffer.from(addressesText(some));
        send(
          fd,
          text,
          some.map(({ descriptor }) => descriptor),
        );
      }
      log.info({ successor: from, listeners: listeners.length }, 'released');
      control.write(controlText({ kind: 'released', count: listeners.length }));
      socket.destroy(); // What was sent stays to be received.
    } catch (error) {
      log.warn({ reason: reasonOf(error) }, 'cannot hand over');
      // It is resumed when the successor has gone: until then that might open what this agent wants back.
      control.write(controlText({ kind: 'failed', reason: reasonOf(error) }));
    }
  };

  return (path, query, socket) => {
    socket.on('error', () => undefined); // Who has gone needs no answer.
    if (path === TAKE_OVER_PATH) ask(query, socket);
    else if (path === LISTENERS_PATH) give(socket);
    else refuse(socket, NO_SUCCESSOR);
  };
}

const NO_SUCCESSOR: Refusal = {
  code: 'TAKE_OVER_FAILED',
  reason: 'this is not what a successor says',
};

const accept = (socket: Socket): boolean =>
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${PROTOCOL}\r\n\r\n`,
  );

function refuse(socket: Socket, refusal: Refusal): void {
  const body = JSON.stringify({ ...refusal, pid: process.pid });
  const head = `HTTP/1.1 409 Conflict\r\nContent-Type: application/json\r\nConnection: close`;
  socket.end(`${head}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
}

function* chunksOf(all: readonly Inherited[]): Generator<readonly Inherited[]> {
  for (let from = 0; from < all.length; from += DESCRIPTORS_A_MESSAGE) {
    yield all.slice(from, from + DESCRIPTORS_A_MESSAGE);
  }
}
