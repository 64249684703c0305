// SPDX-License-Identifier: Apache-2.0
// The successor's side of a take-over: connects to the agent that runs, and later asks it for its listeners.
import { closeSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { FairleadError, reasonOf } from '../../errors.ts';
import { recordOrEmpty } from '../../lib/json.ts';
import { socketPath } from '../../server/admin-socket.ts';
import { descriptorOf } from '../../sys/descriptor.ts';
import { receiveDescriptors } from '../../sys/native.ts';
import type { Released } from './giving.ts';
import { onLines } from './lines.ts';
import {
  addressesOf,
  controlLine,
  controlText,
  LISTENERS_PATH,
  LOCK_TEXT,
  PROTOCOL,
  queryOf,
  refusalOf,
  type Successor,
  TAKE_OVER_PATH,
} from './protocol.ts';

const TIMEOUT_MS = 10_000;
/** Of an agent that has agreed: it releases in one turn of its event loop. */
const RELEASE_MS = 30_000;

/** Replaced in tests. */
interface AskingParts {
  readonly receive?: typeof receiveDescriptors;
  /** How long the agent may take to release. */
  readonly releaseMs?: number;
}

/** undefined: no agent runs there. Throws the error of the running agent if it refuses, and NO_PRIVILEGE. */
export async function findRunning(
  runDir: string,
  successor: Successor,
  { receive = receiveDescriptors, releaseMs = RELEASE_MS }: AskingParts = {},
): Promise<Running | undefined> {
  const control = await connectTo(runDir, successor);
  return control && new Running(runDir, control, { receive, releaseMs });
}

function connectTo(runDir: string, successor: Successor): Promise<Socket | undefined> {
  return new Promise((resolve, reject) => {
    const asked = request({
      socketPath: socketPath(runDir),
      path: `${TAKE_OVER_PATH}?${queryOf(successor)}`,
      headers: { Connection: 'Upgrade', Upgrade: PROTOCOL },
      timeout: TIMEOUT_MS,
    });
    asked.on('upgrade', (_response, socket) => {
      socket.setTimeout(0);
      resolve(socket as Socket);
    });
    asked.on('response', (response) => {
      refusalIn(runDir, response).then(reject, reject);
    });
    asked.on('timeout', () =>
      asked.destroy(new Error(`no response within ${TIMEOUT_MS / 1000} s`)),
    );
    asked.on('error', (error: NodeJS.ErrnoException) => {
      if (isNobody(error)) resolve(undefined);
      else reject(errorOf(runDir, error));
    });
    asked.end();
  });
}

/** Also one that ends at this moment. */
const isNobody = ({ code }: NodeJS.ErrnoException): boolean =>
  code !== undefined && ['ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE'].includes(code);

function errorOf(runDir: string, error: NodeJS.ErrnoException): FairleadError {
  const path = socketPath(runDir);
  return error.code === 'EACCES' || error.code === 'EPERM'
    ? new FairleadError(
        'NO_PRIVILEGE',
        `no permission to use ${path}: run the agent as root, or set --run-dir to a directory of its own`,
      )
    : new FairleadError('TAKE_OVER_FAILED', `the agent at ${path}: ${reasonOf(error)}`);
}

async function refusalIn(runDir: string, response: IncomingMessage): Promise<FairleadError> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  const body = parsed(Buffer.concat(chunks).toString());
  const who = `the agent that serves ${socketPath(runDir)}${pidText(body)}`;
  const refusal = refusalOf(body);
  const advice = 'stop it first, or give this instance its own --run-dir and --bpf-root';
  return refusal === undefined
    ? new FairleadError(
        'ALREADY_RUNNING',
        `${who} is starting, or of a version that cannot hand over: ${advice}`,
      )
    : new FairleadError(
        refusal.code,
        `${who} does not hand over, because ${refusal.reason}: ${advice}`,
      );
}

const pidText = (body: unknown): string => {
  const { pid } = recordOrEmpty(body);
  return typeof pid === 'number' ? ` (pid ${pid})` : '';
};

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** An agent that has agreed to hand over. It goes on until it is asked for its listeners. */
export class Running {
  /** Resolves when it has ended: there is nothing to take any more. */
  readonly gone: Promise<void>;
  readonly #runDir: string;
  readonly #control: Socket;
  readonly #parts: Required<AskingParts>;
  /** Resolves with its first line; undefined: it has ended before. */
  readonly #answer: Promise<string | undefined>;

  constructor(runDir: string, control: Socket, parts: Required<AskingParts>) {
    this.#runDir = runDir;
    this.#control = control;
    this.#parts = parts;
    this.gone = new Promise((resolve) => control.on('close', () => resolve()));
    const line = new Promise<string>((resolve) => {
      onLines(control, resolve);
    });
    this.#answer = Promise.race([line, this.gone.then(() => undefined)]);
  }

  /**
   * It stops to sync and passes on what listens, and its lock on --run-dir. undefined: it has ended. Throws
   * TAKE_OVER_FAILED; it then goes on as if it had not been asked.
   */
  async take(): Promise<Released | undefined> {
    const passing = await connectPaused(this.#runDir).catch(() => undefined);
    if (passing === undefined) return undefined;
    try {
      passing.write(
        `GET ${LISTENERS_PATH} HTTP/1.1\r\nHost: agent\r\nConnection: Upgrade\r\nUpgrade: ${PROTOCOL}\r\n\r\n`,
      );
      const answer = await this.#answerWithin(this.#parts.releaseMs);
      if (answer === undefined) return undefined;
      const line = controlLine(answer);
      if (line?.kind === 'failed') throw failed(line.reason);
      if (line?.kind !== 'released') throw failed('its answer is not of the protocol');
      return receiveAll(descriptorOf(passing), line.count, this.#parts.receive);
    } finally {
      passing.destroy();
    }
  }

  async #answerWithin(ms: number): Promise<string | undefined> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      const error = failed(`it has released nothing within ${ms / 1000} s`);
      timer = setTimeout(() => reject(error), ms);
    });
    return Promise.race([this.#answer, late]).finally(() => clearTimeout(timer));
  }

  /** To be called when this agent answers on them. */
  serves(): void {
    this.#control.write(controlText({ kind: 'serves' }));
  }

  /** Before `serves`: the other one resumes. */
  close(): void {
    this.#control.destroy();
  }
}

const failed = (reason: string): FairleadError =>
  new FairleadError(
    'TAKE_OVER_FAILED',
    `the running agent does not hand over as it should: ${reason}`,
  );

/** Nothing is read by Node, which would close the descriptors that come with it. */
function connectPaused(runDir: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(socketPath(runDir));
    socket.pause();
    socket.on('error', reject);
    socket.on('connect', () => resolve(socket));
  });
}

/** All have been sent: none has to be waited for. Closes what it has received if that is not what was announced. */
export function receiveAll(
  socket: number | undefined,
  count: number,
  receive: typeof receiveDescriptors,
): Released {
  if (socket === undefined) throw failed('the connection has no descriptor');
  const descriptors: number[] = [];
  try {
    const texts: string[] = [];
    while (descriptors.length < count + 1) {
      const message = receive(socket);
      if (message === undefined || message.bytes.length === 0) break;
      descriptors.push(...message.descriptors);
      texts.push(Buffer.from(message.bytes).toString());
    }
    return joined(texts.join(''), descriptors, count);
  } catch (error) {
    for (const descriptor of descriptors) closeSync(descriptor);
    throw error;
  }
}

function joined(text: string, descriptors: readonly number[], count: number): Released {
  const [first, ...lines] = text.split('\n').filter((line) => line !== '');
  const addresses = lines.flatMap((line) => addressesOf(line) ?? []);
  const [lock, ...listening] = descriptors;
  if (lock === undefined || `${first}\n` !== LOCK_TEXT) throw failed('it passes on no lock');
  if (addresses.length !== count || listening.length !== count) {
    throw failed(
      `${count} listeners announced, ${listening.length} descriptors and ${addresses.length} addresses received`,
    );
  }
  const listeners = addresses.flatMap((address, index) => {
    const descriptor = listening[index];
    return descriptor === undefined ? [] : [{ ...address, descriptor }];
  });
  return { lock, listeners };
}
