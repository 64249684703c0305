// SPDX-License-Identifier: Apache-2.0
// The agent's unix socket in --run-dir, which fairlead's own commands use: JSON documents. It also guards
// --run-dir against a second agent. Accessible by root only, as it names every Service.
import { chmodSync, closeSync, mkdirSync, openSync, rmSync } from 'node:fs';
import {
  createServer,
  type IncomingMessage,
  request,
  type Server,
  type ServerResponse,
} from 'node:http';
import { connect, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { FairleadError, isOutOfSpace, noSpace, reasonOf } from '../errors.ts';
import { recordOrEmpty } from '../lib/json.ts';
import { inSlices } from '../sys/clock.ts';
import { isWithoutAddon, lockExclusively } from '../sys/native.ts';

/** By path, called with the query for each request; undefined is answered with 404. */
export type Routes = Readonly<Record<string, (query: URLSearchParams) => unknown>>;

/** `socket` is the listener's from now on. */
export type OnConnection = (path: string, query: URLSearchParams, socket: Socket) => void;

export const socketPath = (runDir: string): string => join(runDir, 'agent.sock');

export interface AgentSocket {
  /** Replaces the routes. */
  serve(routes: Routes): void;
  /** From now on clients may ask for a connection of their own (HTTP's Upgrade); until then they are answered as all others. */
  serveConnections(onConnection: OnConnection): void;
  /** The descriptor of the lock on --run-dir, which is the caller's from now on: `close` leaves it locked. */
  keepLock(): number;
  /** Ends connections too. Idempotent. */
  close(): void;
}

/** The lock that an earlier agent has passed on; undefined: there is none. Called at most once. */
export type InheritedLock = () => number | undefined;

/** Work between two turns of the event loop, and rows that are written at once. */
const SLICE_MS = 10;
const ROWS = 100;
const ONLY_ROOT = 0o600;
/** An agent on a busy node answers after seconds. */
const TIMEOUT_MS = 10_000;
/** Of what is read from the kernel: longer than the agent waits for a program that lists rules. */
export const READING_TIMEOUT_MS = 30_000;

/** Throws ALREADY_RUNNING if another agent listens there; the socket of a dead one is replaced. */
export async function serveSocket(
  runDir: string,
  routes: Routes,
  inheritedLock?: InheritedLock,
): Promise<AgentSocket> {
  const path = socketPath(runDir);
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o755 });
    await refuseSecondAgent(runDir);
    return await serveLocked(runDir, routes, inheritedLock);
  } catch (error) {
    if (isOutOfSpace(error)) throw noSpace(runDir, error);
    throw isPermission(error)
      ? new FairleadError(
          'NO_PRIVILEGE',
          `no permission to create ${path}: run the agent as root, or set --run-dir to a writable directory`,
        )
      : error;
  }
}

/** Holds a lock on runDir: of two agents that start together, one would remove the socket of the other. An inherited one is locked already. */
async function serveLocked(
  runDir: string,
  routes: Routes,
  inheritedLock: InheritedLock | undefined,
): Promise<AgentSocket> {
  const path = socketPath(runDir);
  const lock = inheritedLock?.() ?? openSync(runDir, 'r');
  try {
    if (!tryLock(lock)) throw alreadyRunning(runDir);
    rmSync(path, { force: true });
    let served = routes;
    const server = createServer((incoming, response) => {
      respond(served, incoming, response).catch((error: unknown) => {
        if (response.headersSent) return response.destroy();
        response.statusCode = 500;
        response.end(JSON.stringify({ error: reasonOf(error) }));
      });
    });
    await listen(server, path);
    chmodSync(path, ONLY_ROOT);
    let isOpen = true;
    let isLockKept = false;
    return {
      serve(others) {
        served = others;
      },
      serveConnections(onConnection) {
        server.on('upgrade', (incoming, socket) => {
          const { pathname, searchParams } = urlOf(incoming);
          onConnection(pathname, searchParams, socket as Socket);
        });
      },
      keepLock() {
        isLockKept = true;
        return lock;
      },
      close() {
        if (!isOpen) return;
        isOpen = false;
        server.closeAllConnections();
        server.close();
        rmSync(path, { force: true });
        if (!isLockKept) closeSync(lock);
      },
    };
  } catch (error) {
    closeSync(lock);
    throw error;
  }
}

/** Without the addon there is no lock: an agent that listens is still found, only two that start at once are not told apart. */
function tryLock(descriptor: number): boolean {
  try {
    return lockExclusively(descriptor);
  } catch (error) {
    if (isWithoutAddon(error)) return true;
    throw error;
  }
}

async function refuseSecondAgent(runDir: string): Promise<void> {
  const path = socketPath(runDir);
  if (!(await isListening(path))) return;
  // A time-out means an agent that is busy, not one that is gone.
  const status = await askAgent(runDir, '/v1/status').catch(() => undefined);
  throw alreadyRunning(runDir, recordOrEmpty(status)['pid']);
}

const alreadyRunning = (runDir: string, pid?: unknown): FairleadError =>
  new FairleadError(
    'ALREADY_RUNNING',
    `another fairlead${pid === undefined ? '' : ` (pid ${String(pid)})`} serves ${socketPath(runDir)}: stop it first, or give this instance its own --run-dir and --bpf-root`,
  );

/** Rejects only if permission is denied. */
function isListening(path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    const end = (isThere: boolean): void => {
      socket.destroy();
      resolve(isThere);
    };
    socket.on('connect', () => end(true));
    socket.on('error', (error) => (isPermission(error) ? reject(error) : end(false)));
  });
}

async function respond(
  routes: Routes,
  incoming: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { pathname: path, searchParams } = urlOf(incoming);
  const route = Object.hasOwn(routes, path) ? routes[path] : undefined;
  const body = await route?.(searchParams);
  response.setHeader('Content-Type', 'application/json');
  response.statusCode = body === undefined ? 404 : 200;
  if (!Array.isArray(body)) response.end(JSON.stringify(body ?? { error: 'no such path' }));
  else await inSlices(writeList(response, body), SLICE_MS, () => response.destroyed);
}

/** In small steps: a list has a row for each endpoint of the cluster. */
function* writeList(response: ServerResponse, rows: readonly unknown[]): Generator<void, void> {
  response.write('[');
  for (let from = 0; from < rows.length; from += ROWS) {
    const some = rows.slice(from, from + ROWS).map((row) => JSON.stringify(row));
    response.write(`${from === 0 ? '' : ','}${some.join(',')}`);
    yield;
  }
  response.end(']');
}

const urlOf = ({ url }: IncomingMessage): URL => new URL(url ?? '/', 'http://agent');

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, resolve);
  });
}

/**
 * One document of a running agent. Throws NOT_RUNNING, NO_PRIVILEGE if access to the socket is denied, or an Error
 * with the reason why the agent could not answer.
 */
export async function askAgent(
  runDir: string,
  route: string,
  timeoutMs = TIMEOUT_MS,
): Promise<unknown> {
  const response = await get(runDir, route, timeoutMs);
  const body = await documentOf(response).catch((error: unknown) => {
    throw noAgent(runDir, error);
  });
  if (response.statusCode !== 500) return body;
  const { error: reason } = recordOrEmpty(body);
  throw new Error(
    `the agent at ${socketPath(runDir)} could not answer ${route}: ${String(reason)}; its log may say more`,
  );
}

async function documentOf(response: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return JSON.parse(Buffer.concat(chunks).toString());
}

function get(runDir: string, route: string, timeoutMs = TIMEOUT_MS): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    // A connection of its own: one that is kept may be closed by the agent, or be that of an agent that has ended.
    const options = {
      ...{ socketPath: socketPath(runDir), path: route },
      ...{ timeout: timeoutMs, agent: false },
    };
    const asked = request(options, (response) => {
      asked.setTimeout(0);
      resolve(response);
    });
    asked.on('timeout', () => asked.destroy(new NoAnswer(runDir, timeoutMs)));
    asked.on('error', (error) =>
      reject(error instanceof NoAnswer ? error : noAgent(runDir, error)),
    );
    asked.end();
  });
}

/** An agent has the socket open: whether one runs is not the question. */
class NoAnswer extends FairleadError {
  constructor(runDir: string, timeoutMs: number) {
    super(
      'NOT_RUNNING',
      `the agent at ${socketPath(runDir)} did not answer within ${timeoutMs / 1000} s: it is busy or stopped (SIGSTOP); try again, and see its log`,
    );
  }
}

function noAgent(runDir: string, error: unknown): FairleadError {
  const path = socketPath(runDir);
  return isPermission(error)
    ? new FairleadError(
        'NO_PRIVILEGE',
        `permission denied on the agent's socket ${path}: run this command as root`,
      )
    : new FairleadError(
        'NOT_RUNNING',
        `no agent answers at ${path} (${reasonOf(error)}): is \`fairlead run\` running with this --run-dir?`,
      );
}

const isPermission = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && (error.code === 'EACCES' || error.code === 'EPERM');
