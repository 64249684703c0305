// SPDX-License-Identifier: Apache-2.0
// An API server over real sockets: lists with pages, watches with history, bookmarks and initial events,
// and any fault a test asks for. Knows just enough of selectors for those that a proxy sends.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { isMatch } from './fake-selectors.ts';
import type { ApiObject } from './objects.ts';
import { serves } from './traffic.ts';

export interface Seen {
  readonly path: string;
  readonly query: URLSearchParams;
  readonly authorization: string | undefined;
}

/** Takes a request over; true = answered, or never to be. */
export type Fault = (seen: Seen, response: ServerResponse, socket: Socket) => boolean;

interface Change {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly object: ApiObject;
  readonly before: ApiObject | undefined;
  readonly version: number;
}

interface Watcher {
  readonly path: string;
  readonly query: URLSearchParams;
  readonly response: ServerResponse;
  readonly socket: Socket;
}

interface Collection {
  readonly objects: Map<string, ApiObject>;
  readonly history: Change[];
}

const keyOf = ({ metadata }: ApiObject): string => `${metadata.namespace ?? ''}/${metadata.name}`;

export class FakeApiServer {
  url = '';
  version = 100;
  /** How a request for initial events is met. */
  watchList: 'supported' | 'refused' | 'ignored' = 'supported';
  hasPages = true;
  /** Versions up to this one are forgotten. */
  compacted = 0;
  fault: Fault | undefined;
  uidPrefix = 'uid';
  readonly seen: Seen[] = [];
  readonly sockets = new Set<Socket>();
  readonly watchers = new Set<Watcher>();
  connections = 0;
  readonly #collections = new Map<string, Collection>();
  readonly #server: Server;
  /** Answers that have not ended, and whether their headers have gone. */
  readonly #open = new Set<ServerResponse>();
  #stopServing: () => void = () => undefined;

  private constructor(tls: { readonly cert: string; readonly key: string } | undefined) {
    const listener = (request: IncomingMessage, response: ServerResponse) =>
      this.#serve(request, response);
    this.#server = tls === undefined ? createServer(listener) : createTlsServer(tls, listener);
    this.#server.on('connection', (socket: Socket) => {
      this.connections += 1;
      this.sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => this.sockets.delete(socket));
    });
  }

  static async open(tls?: { readonly cert: string; readonly key: string }): Promise<FakeApiServer> {
    const fake = new FakeApiServer(tls);
    await new Promise<void>((resolve) => fake.#server.listen(0, '127.0.0.1', resolve));
    const { port } = fake.#server.address() as AddressInfo;
    fake.url = `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`;
    const countOpen = (isStreaming: boolean): number =>
      [...fake.#open].filter(
        ({ headersSent, writableEnded, socket }) =>
          headersSent === isStreaming && !writableEnded && socket?.destroyed === false,
      ).length;
    fake.#stopServing = serves({
      url: fake.url,
      unanswered: () => countOpen(false),
      streaming: () => countOpen(true),
    });
    return fake;
  }

  async close(): Promise<void> {
    this.#stopServing();
    for (const socket of this.sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** Requests of one path, or all: `list`, `watch`, `watchlist`, in order. */
  kinds(path?: string): string[] {
    return this.seen
      .filter((one) => path === undefined || one.path === path)
      .map(({ query }) => {
        if (query.get('watch') === null) return 'list';
        return query.get('sendInitialEvents') === null ? 'watch' : 'watchlist';
      });
  }

  put(path: string, object: ApiObject): void {
    this.version += 1;
    const { objects, history } = this.#collection(path);
    const key = keyOf(object);
    const before = objects.get(key);
    const { name, namespace } = object.metadata;
    const uid = before?.metadata['uid'] ?? `${this.uidPrefix}-${namespace ?? ''}-${name}`;
    // In the order in which API servers write them.
    const metadata = {
      ...{ name, ...(namespace !== undefined && { namespace }), uid, resourceVersion: '' },
      ...object.metadata,
      resourceVersion: String(this.version),
    };
    const now = { ...object, metadata };
    objects.set(key, now);
    const type = before === undefined ? 'ADDED' : 'MODIFIED';
    this.#tell(path, history, { type, object: now, before, version: this.version });
  }

  remove(path: string, name: string, namespace = 'default'): void {
    this.version += 1;
    const { objects, history } = this.#collection(path);
    const before = objects.get(`${namespace}/${name}`);
    if (before === undefined) throw new Error(`no ${name}`);
    objects.delete(`${namespace}/${name}`);
    const metadata = { ...before.metadata, resourceVersion: String(this.version) };
    const object = { ...before, metadata };
    this.#tell(path, history, { type: 'DELETED', object, before, version: this.version });
  }

  /** Loses everything without telling anyone, as a restored or new server has. */
  forgetAll(version = this.version + 1): void {
    this.version = version;
    this.#collections.clear();
  }

  bookmark(path: string): void {
    for (const { response } of this.#watchersOf(path)) response.write(bookmarkLine(this.version));
  }

  /** A raw line to all watchers of a path. */
  send(path: string, text: string): void {
    for (const { response } of this.#watchersOf(path)) response.write(text);
  }

  endWatches(path: string): void {
    for (const watcher of this.#watchersOf(path)) {
      this.watchers.delete(watcher);
      watcher.response.end();
    }
  }

  resetWatches(path: string): void {
    for (const watcher of this.#watchersOf(path)) {
      this.watchers.delete(watcher);
      watcher.socket.resetAndDestroy();
    }
  }

  #watchersOf(path: string): Watcher[] {
    return [...this.watchers].filter((watcher) => watcher.path === path);
  }

  #collection(path: string): Collection {
    const found = this.#collections.get(path) ?? { objects: new Map(), history: [] };
    this.#collections.set(path, found);
    return found;
  }

  #tell(path: string, history: Change[], change: Change): void {
    history.push(change);
    for (const { query, response } of this.#watchersOf(path)) {
      // Who asked from a version yet to come is told nothing before it, and not that it is yet to come.
      if (Number(query.get('resourceVersion') ?? 0) >= change.version) continue;
      const line = lineFor(change, query);
      if (line !== undefined) response.write(line);
    }
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://x');
    const { authorization } = request.headers;
    const seen = { path: pathname, query: searchParams, authorization };
    this.seen.push(seen);
    this.#open.add(response);
    response.on('close', () => this.#open.delete(response));
    if (this.fault?.(seen, response, request.socket) === true) return;
    if (searchParams.get('watch') === null) this.#list(pathname, searchParams, response);
    else this.#watch({ path: pathname, query: searchParams, response, socket: request.socket });
  }

  #list(path: string, query: URLSearchParams, response: ServerResponse): void {
    const matching = [...this.#collection(path).objects.values()].filter((one) =>
      isMatch(one, query),
    );
    const wanted = Number(query.get('resourceVersion') ?? 0);
    if (wanted > this.version) {
      tooLarge(response, wanted, this.version);
      return;
    }
    const from = Number(query.get('continue') ?? 0);
    const limit = this.hasPages ? Number(query.get('limit') ?? Number.MAX_SAFE_INTEGER) : 1e9;
    const items = matching.slice(from, from + limit);
    const token = from + limit < matching.length ? { continue: String(from + limit) } : {};
    const metadata = { resourceVersion: String(this.version), ...token };
    response.setHeader('content-type', 'application/json');
    response.end(`${JSON.stringify({ kind: 'List', apiVersion: 'v1', metadata, items })}\n`);
  }

  #watch(watcher: Watcher): void {
    const { path, query, response } = watcher;
    const isInitial = query.get('sendInitialEvents') !== null;
    if (isInitial && this.watchList === 'refused') {
      status(response, 422, 'sendInitialEvents is forbidden for watch');
      return;
    }
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
    response.on('close', () => this.watchers.delete(watcher));
    const { objects, history } = this.#collection(path);
    const since = Number(query.get('resourceVersion') ?? 0);
    if (isInitial) {
      for (const object of objects.values()) {
        if (isMatch(object, query)) response.write(eventLine('ADDED', object));
      }
      if (this.watchList === 'supported') response.write(bookmarkLine(this.version, true));
    } else if (since < this.compacted) {
      response.end(errorLine(410, `too old resource version: ${since} (${this.compacted})`));
      return;
    } else {
      for (const change of history.filter(({ version }) => version > since)) {
        const line = lineFor(change, query);
        if (line !== undefined) response.write(line);
      }
    }
    this.watchers.add(watcher);
  }
}

export const eventLine = (type: string, object: unknown): string =>
  `${JSON.stringify({ type, object })}\n`;

export function bookmarkLine(version: number, isInitialEnd = false): string {
  const annotations = isInitialEnd ? { 'k8s.io/initial-events-end': 'true' } : {};
  return eventLine('BOOKMARK', { metadata: { resourceVersion: String(version), annotations } });
}

export const errorLine = (code: number, message: string, details = {}): string =>
  eventLine('ERROR', { kind: 'Status', status: 'Failure', code, message, details });

export function status(
  response: ServerResponse,
  code: number,
  message: string,
  headers = {},
): void {
  response.writeHead(code, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify({ kind: 'Status', status: 'Failure', code, message }));
}

function tooLarge(response: ServerResponse, wanted: number, current: number): void {
  status(response, 504, `Timeout: Too large resource version: ${wanted}, current: ${current}`);
}

/** What a watcher with these selectors is told: an object that no longer matches is deleted for it. */
function lineFor({ type, object, before }: Change, query: URLSearchParams): string | undefined {
  const isNow = type !== 'DELETED' && isMatch(object, query);
  const wasBefore = before !== undefined && isMatch(before, query);
  if (isNow) return eventLine(wasBefore ? 'MODIFIED' : 'ADDED', object);
  return wasBefore ? eventLine('DELETED', object) : undefined;
}
