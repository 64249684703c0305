// SPDX-License-Identifier: Apache-2.0
// A proxy between agents and a real API server that forwards everything until a test injects a fault. It runs
// in the test's own process, so that a fault is a function, and listens in the control plane's namespace at the
// address of the second API server.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import {
  createServer,
  type Server as HttpServer,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import { Agent, request as askUpstream } from 'node:https';
import type { Server as Listener, Socket } from 'node:net';
import { createSecureContext, type SecureContext, TLSSocket } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { insideSandbox } from '../../../../tools/lab/sandbox.ts';
import type { ControlPlane } from '../control-plane/control-plane.ts';
import { SERVER_ADDRESSES, SERVER_PORT } from '../control-plane/network.ts';
import { type EventStream, relayLines } from './event-stream.ts';

const ADDRESS = SERVER_ADDRESSES[1];
const CHILD = fileURLToPath(new URL('listen-child.mjs', import.meta.url));

/** Options that make a control plane advertise this server as its only API server. */
export const ONLY_FAULTY_SERVER = [`--advertise-address=${ADDRESS}`];

export interface Asked {
  readonly path: string;
  readonly query: URLSearchParams;
  readonly isWatch: boolean;
  readonly authorization: string | undefined;
  /** Monotonic. */
  readonly atMs: number;
}

export interface Refusal {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string;
}

/** An error response in the format of an API server. */
export function refusal(status: number, reason: string, message = 'faulty'): Refusal {
  const body = { kind: 'Status', apiVersion: 'v1', status: 'Failure', code: status, reason };
  return { status, body: JSON.stringify({ ...body, message }) };
}

/** The faults of the server; anything omitted works normally. */
export interface Fault {
  /** Called instead of serving a newly accepted connection. */
  readonly connection?: (socket: Socket) => void;
  /** Answers instead of the API server; `silence` keeps the connection open and sends nothing. */
  readonly answer?: (asked: Asked) => Refusal | 'silence' | undefined;
  /** Changes the query that is forwarded. */
  readonly question?: (query: URLSearchParams) => void;
  /** Decides what is sent for a line of a watch, including watches that are already open. */
  readonly line?: (line: string, stream: EventStream, asked: Asked) => void;
}

export interface FaultyServer {
  /** How nodes reach it. */
  readonly url: string;
  /** All requests so far. */
  readonly asked: readonly Asked[];
  /** Connections accepted so far. */
  readonly connections: number;
  /** Takes effect now and replaces the previous fault. */
  inject(fault: Fault): void;
  /** Forwards everything from now on. */
  mend(): void;
  /** Resets all open connections. */
  resetAll(): void;
  close(): Promise<void>;
}

export async function startFaultyServer(plane: ControlPlane): Promise<FaultyServer> {
  return new Server(plane, await listenIn(plane));
}

class Server implements FaultyServer {
  readonly url = `https://${ADDRESS}:${SERVER_PORT}`;
  readonly asked: Asked[] = [];
  connections = 0;
  readonly #listener: Listener;
  readonly #upstream: Upstream;
  readonly #http: HttpServer;
  readonly #sockets = new Set<Socket>();
  #fault: Fault = {};

  constructor(plane: ControlPlane, listener: Listener) {
    const { certificate, key } = plane.certificates.server;
    const identity = { cert: readFileSync(certificate), key: readFileSync(key) };
    const secureContext = createSecureContext(identity);
    this.#listener = listener;
    this.#upstream = new Upstream(plane);
    this.#http = createServer((incoming, response) => {
      const question = read(incoming);
      this.asked.push(question);
      serve(this.#upstream, () => this.#fault, { question, incoming, response });
    });
    listener.on('connection', (socket) => this.#accept(socket, secureContext));
  }

  inject(fault: Fault): void {
    this.#fault = fault;
  }

  mend(): void {
    this.#fault = {};
  }

  resetAll(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  async close(): Promise<void> {
    this.#listener.close();
    for (const socket of this.#sockets) socket.destroy();
    this.#upstream.close();
    await once(this.#listener, 'close');
  }

  #accept(socket: Socket, secureContext: SecureContext): void {
    this.connections += 1;
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket));
    socket.on('error', () => undefined); // Reset by us, or by an agent that was killed.
    if (this.#fault.connection !== undefined) {
      this.#fault.connection(socket);
      return;
    }
    const tls = new TLSSocket(socket, { isServer: true, secureContext });
    tls.on('error', () => socket.destroy());
    this.#http.emit('connection', tls);
  }
}

/** A listening socket in the control plane's namespace. */
async function listenIn(plane: ControlPlane): Promise<Listener> {
  const sandbox = plane.sandbox('faulty server', plane.namespace);
  const argv = insideSandbox(sandbox, [process.execPath, CHILD, ADDRESS, String(SERVER_PORT)]);
  const [shell = 'sh', ...args] = argv;
  const child = spawn(shell, args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const ended = once(child, 'exit').then(() => ['ended']);
  const [message, server] = await Promise.race([once(child, 'message'), ended]);
  if (message !== 'listening') throw new Error(`cannot listen on ${ADDRESS}:${SERVER_PORT}`);
  child.disconnect();
  return server as Listener; // Node turns a handle sent with a message into a server.
}

function read({ url = '/', headers }: IncomingMessage): Asked {
  const { pathname: path, searchParams: query } = new URL(url, 'https://faulty');
  const isWatch = query.get('watch') === 'true';
  const { authorization } = headers;
  return { path, query, isWatch, authorization, atMs: performance.now() };
}

interface Exchange {
  readonly question: Asked;
  readonly incoming: IncomingMessage;
  readonly response: ServerResponse;
}

function serve(upstream: Upstream, fault: () => Fault, exchange: Exchange): void {
  const { question, response } = exchange;
  const refusal = fault().answer?.(question);
  if (refusal === 'silence') return;
  if (refusal !== undefined) {
    response.writeHead(refusal.status, refusal.headers).end(refusal.body);
    return;
  }
  const query = new URLSearchParams(question.query);
  fault().question?.(query);
  upstream.ask(exchange, `${question.path}?${query}`, (answer) => {
    const { 'content-type': type = 'application/json' } = answer.headers;
    response.writeHead(answer.statusCode ?? 502, { 'content-type': type });
    if (!question.isWatch) {
      answer.pipe(response);
      return;
    }
    relayLines(answer, response, (line, stream) => {
      const { line: onLine } = fault();
      if (onLine === undefined) stream.send(line);
      else onLine(line, stream, question);
    });
  });
}

/** The real API server. When it breaks a connection, the agent's is reset. */
class Upstream {
  readonly #url: string;
  readonly #agent: Agent;

  constructor({ server, certificates }: ControlPlane) {
    this.#url = server.localUrl;
    this.#agent = new Agent({ keepAlive: true, ca: readFileSync(certificates.ca) });
  }

  ask(
    { incoming, response }: Exchange,
    pathAndQuery: string,
    onAnswer: (answer: IncomingMessage) => void,
  ): void {
    const { authorization, accept, 'content-type': type } = incoming.headers;
    const headers = { authorization, accept, 'content-type': type };
    const passed = askUpstream(`${this.#url}${pathAndQuery}`, {
      agent: this.#agent,
      method: incoming.method ?? 'GET',
      headers: Object.fromEntries(
        Object.entries(headers).filter(([, value]) => value !== undefined),
      ),
    });
    const breakOff = (): void => void response.socket?.destroy();
    passed.on('error', breakOff);
    passed.on('response', (answer) => {
      answer.on('error', breakOff);
      onAnswer(answer);
    });
    response.on('close', () => passed.destroy());
    incoming.pipe(passed);
  }

  close(): void {
    this.#agent.destroy();
  }
}
