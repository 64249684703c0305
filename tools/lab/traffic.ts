// SPDX-License-Identifier: Apache-2.0
// The parent's side of a client pod: starts the client program in its sandbox, sends it requests and
// matches the replies. One program serves any number of phases.
import { type Child, stop } from '../../src/sys/exec.ts';
import type {
  Answer,
  LoadReport,
  OperationName,
  Operations,
  ReplyMessage,
  SocketAddress,
  Tally,
  Target,
} from './client/protocol.ts';
import { type Sandbox, startProgram } from './sandbox.ts';

/** What is answered or refused at all is so much sooner, except on a machine with much other work. */
const DEFAULT_TIMEOUT_MS = 5_000;
export interface LoadOptions {
  readonly concurrency: number;
  readonly pauseMs: number;
  /** For each connection. */
  readonly timeoutMs: number;
}

/** Of one of thousands, which all must be answered: TCP sends again after 1, 3, 7 and 15 s. */
const LOAD: LoadOptions = { timeoutMs: 30_000, concurrency: 8, pauseMs: 5 };

export interface BurstOptions {
  readonly connections: number;
  readonly concurrency?: number;
  /** For each connection. */
  readonly timeoutMs?: number;
  readonly onProgress?: (done: number) => void;
}

export interface RunningLoad {
  read(): Promise<LoadReport>;
  stop(): Promise<LoadReport>;
}

export interface OpenSocket {
  /** TCP: the greeting; UDP: only if connect() failed. */
  readonly answer: Answer | undefined;
  talk(text: string, to?: SocketAddress, timeoutMs?: number): Promise<Answer>;
  close(): Promise<void>;
}

export interface Client {
  readonly sandbox: Sandbox;
  once(target: Target, timeoutMs?: number): Promise<Answer>;
  burst(target: Target, options: BurstOptions): Promise<Tally>;
  startLoad(target: Target, options?: Partial<LoadOptions>): Promise<RunningLoad>;
  open(target: Target, timeoutMs?: number): Promise<OpenSocket>;
  stop(): Promise<void>;
}

type Call = <Op extends OperationName>(
  op: Op,
  request: Operations[Op]['request'],
  onProgress?: (done: number) => void,
) => Promise<Operations[Op]['reply']>;

/**
 * Starts a client program in a pod or on a node and waits until it serves.
 * @param usual of its loads that do not say otherwise
 */
export async function startClient(
  sandbox: Sandbox,
  usual: Partial<LoadOptions> = {},
): Promise<Client> {
  const wire = openWire();
  const child = await startProgram(sandbox, 'client', [], wire.onLine);
  child.exited.then((code) => wire.onExit(`client in ${sandbox.name} ended with code ${code}`));
  const call = wire.callThrough(child);
  const timeoutMs = DEFAULT_TIMEOUT_MS;
  return {
    sandbox,
    once: (target, onceTimeoutMs = timeoutMs) => call('once', { target, timeoutMs: onceTimeoutMs }),
    burst: (target, { concurrency = 32, onProgress, ...options }) =>
      call('burst', { target, timeoutMs, concurrency, ...options }, onProgress),
    startLoad: async (target, options = {}) => {
      const request = { target, ...LOAD, ...usual, ...options };
      const { load } = await call('startLoad', request);
      return { read: () => call('readLoad', { load }), stop: () => call('stopLoad', { load }) };
    },
    open: async (target, openTimeoutMs = timeoutMs) => {
      const { socket, answer } = await call('open', { target, timeoutMs: openTimeoutMs });
      return {
        answer,
        talk: (text, to, talkTimeoutMs = timeoutMs) =>
          call('talk', { socket, text, timeoutMs: talkTimeoutMs, ...(to && { to }) }),
        close: async () => void (await call('close', { socket })),
      };
    },
    stop: async () => void (await stop(child)),
  };
}

interface Waiting {
  onLine(line: string): void;
  reject(error: Error): void;
}

function openWire(): {
  onLine(line: string): void;
  onExit(reason: string): void;
  callThrough(child: Child): Call;
} {
  const waiting = new Map<number, Waiting>();
  let lastId = 0;
  let ended: Error | undefined;
  const callThrough =
    (child: Child): Call =>
    (op, request, onProgress) => {
      if (ended !== undefined) return Promise.reject(ended);
      lastId += 1;
      const id = lastId;
      return new Promise((resolve, reject) => {
        const onLine = (line: string): void => {
          const message: ReplyMessage<typeof op> = JSON.parse(line);
          if (message.progress !== undefined) {
            onProgress?.(message.progress);
            return;
          }
          waiting.delete(id);
          if (message.reply !== undefined) resolve(message.reply);
          else reject(new Error(message.error ?? 'client gave no reason'));
        };
        waiting.set(id, { onLine, reject });
        child.writeLine(JSON.stringify({ id, op, request }));
      });
    };
  return {
    onLine: (line) => {
      const { id }: { id: number } = JSON.parse(line);
      waiting.get(id)?.onLine(line);
    },
    onExit: (reason) => {
      ended = new Error(reason);
      for (const { reject } of waiting.values()) reject(ended);
      waiting.clear();
    },
    callThrough,
  };
}
