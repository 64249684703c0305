// SPDX-License-Identifier: Apache-2.0
// An API server without a store on disk: lists and watches of the objects that it is told, exactly as they are, except
// for defaults. Unlike a real one it accepts objects that validation would refuse, starts at once, and can hold back one
// kind. `stub-server.js HOST PORT` reads one JSON object a line, {put, remove, hold}, and answers `done`, or, to {events}, the
// Events that were posted.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createInterface } from 'node:readline';
import { json } from 'node:stream/consumers';
import type { StubObject } from './defaults.ts';
import { API_VERSIONS, type Change, isSelected, Store } from './store.ts';

const PATHS: Readonly<Record<string, string>> = {
  '/api/v1/services': 'Service',
  '/api/v1/nodes': 'Node',
  '/apis/discovery.k8s.io/v1/endpointslices': 'EndpointSlice',
  '/apis/networking.k8s.io/v1/servicecidrs': 'ServiceCIDR',
};
const store = new Store();
/** As they were posted. */
const events: unknown[] = [];
/** Requests for this kind wait until it changes. */
let withheld: string | undefined;
let whenReleased = Promise.resolve();
let release = (): void => undefined;

interface Asked {
  readonly kind: string;
  readonly query: URLSearchParams;
  readonly response: ServerResponse;
}

function send({ response, kind, query }: Asked, change: Change): void {
  const { version, kind: changed, before, after } = change;
  if (kind !== changed) return;
  const [was, is] = [isSelected(before, query), isSelected(after, query)];
  if (!was && !is) return;
  const type = is ? (was ? 'MODIFIED' : 'ADDED') : 'DELETED';
  const gone = (): object => ({
    ...before,
    metadata: { ...before?.metadata, resourceVersion: String(version) },
  });
  response.write(`${JSON.stringify({ type, object: is ? after : gone() })}\n`);
}

function watch(asked: Asked): void {
  const { kind, query, response } = asked;
  response.flushHeaders();
  if (query.get('sendInitialEvents') === 'true') {
    for (const object of store.list(kind, query)) {
      response.write(`${JSON.stringify({ type: 'ADDED', object })}\n`);
    }
    const annotations = { 'k8s.io/initial-events-end': 'true' };
    const metadata = { resourceVersion: String(store.version), annotations };
    const bookmark = { kind, apiVersion: API_VERSIONS[kind], metadata };
    response.write(`${JSON.stringify({ type: 'BOOKMARK', object: bookmark })}\n`);
  } else {
    const version = Number(query.get('resourceVersion') ?? store.version);
    for (const change of store.since(version)) send(asked, change);
  }
  response.on(
    'close',
    store.watch((change) => send(asked, change)),
  );
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname, searchParams: query } = new URL(request.url ?? '', 'http://stub');
  const say = (code: number, body: object): void => {
    response.writeHead(code, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body));
  };
  if (request.method !== 'GET') {
    const posted = await json(request);
    if (pathname.endsWith('/events')) events.push(posted);
    return say(201, {});
  }
  const [, node] = /^\/api\/v1\/nodes\/(.+)$/.exec(pathname) ?? [];
  const found = node === undefined ? undefined : store.get(`Node /${node}`);
  if (found !== undefined) return say(200, found);
  const kind = PATHS[pathname];
  if (kind === undefined) return say(404, missing(pathname));
  if (withheld === kind) await whenReleased;
  response.setHeader('content-type', 'application/json');
  if (query.get('watch') !== null) return watch({ kind, query, response });
  const metadata = { resourceVersion: String(store.version) };
  const items = store.list(kind, query);
  return say(200, { kind: `${kind}List`, apiVersion: API_VERSIONS[kind], metadata, items });
}

const missing = (path: string): object => ({
  ...{ kind: 'Status', apiVersion: 'v1', status: 'Failure' },
  ...{ reason: 'NotFound', code: 404, message: `${path} not found` },
});

interface Orders {
  readonly put?: readonly StubObject[];
  /** `KIND NAMESPACE/NAME` */
  readonly remove?: readonly string[];
  readonly hold?: string | null;
  readonly events?: true;
}

function obey({ put = [], remove = [], hold }: Orders): void {
  if (hold !== undefined) {
    release();
    withheld = hold ?? undefined;
    whenReleased = new Promise((resolve) => {
      release = resolve;
    });
  }
  for (const key of remove) store.remove(key);
  for (const object of put) store.put(object);
}

const [host, port] = process.argv.slice(2);
const server = createServer((request, response) => {
  answer(request, response).catch((error) => response.destroy(error));
});
server.listen(Number(port), host, () => process.stdout.write('ready\n'));
const lines = createInterface({ input: process.stdin });
lines.on('line', (line) => {
  const orders: Orders = JSON.parse(line);
  obey(orders);
  process.stdout.write(orders.events === true ? `${JSON.stringify(events)}\n` : 'done\n');
});
lines.on('close', () => process.exit(0));
