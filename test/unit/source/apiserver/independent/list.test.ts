// SPDX-License-Identifier: Apache-2.0
// Lists beside the watch, from a server over real sockets: what they say, what is not believed, and what they cost.
import { expect, onTestFinished, test } from 'vitest';
import {
  type IndependentList,
  independentList,
  type Listed,
} from '../../../../../src/source/apiserver/independent/list.ts';
import {
  ownNode,
  SERVICE_CIDRS,
  SERVICES,
  SLICES,
} from '../../../../../src/source/apiserver/kinds.ts';
import { LIMITS } from '../../../../../src/source/apiserver/limits.ts';
import { type FakeApiServer, status } from '../support/fake-api-server.ts';
import { openServer } from '../support/harness.ts';
import { node, service, slice } from '../support/objects.ts';

const NODES = ownNode('n1').path;

/** Services `kubernetes` and `web`, a slice `web-1`, and the Nodes n1 and n2. */
async function cluster(): Promise<{ server: FakeApiServer; list: IndependentList }> {
  const server = await openServer();
  for (const name of ['kubernetes', 'web']) server.put(SERVICES.path, service(name));
  server.put(SLICES.path, slice('web-1'));
  for (const name of ['n1', 'n2']) server.put(NODES, node(name));
  const list = independentList({
    nodeName: 'n1',
    userAgent: 'fairlead/test',
    apiServer: {
      servers: [{ url: server.url, tlsName: undefined }],
      credentials: { kind: 'none' },
      winner: 'api-server flag',
      why: 'test',
      passedOver: [],
    },
  });
  onTestFinished(() => list.close());
  return { server, list };
}

const texts = ({ changes }: Listed): readonly string[] =>
  changes.map(({ type, ref }) => `${type} ${ref.kind} ${ref.name}`).toSorted();

const ALL = ['put EndpointSlice web-1', 'put Node n1', 'put Service kubernetes', 'put Service web'];

/** From now on requests for this path are refused, unless they are to be answered. */
function refuse(
  server: FakeApiServer,
  path: string,
  code: number,
  isRefused: (query: URLSearchParams) => boolean = () => true,
): void {
  server.fault = (seen, response) => {
    if (seen.path !== path || !isRefused(seen.query)) return false;
    status(response, code, 'no');
    return true;
  };
}

test('the first list puts everything, a later one what has changed', async () => {
  const { server, list } = await cluster();
  const first = await list.read({});
  expect(texts(first)).toEqual(ALL);
  expect(first.objects).toBe(4);
  expect(server.seen.some(({ query }) => query.has('watch') || query.has('resourceVersion'))).toBe(
    false,
  );
  // The same identity: what is listed unchanged is not decoded, so no object comes of it.
  expect(texts(await list.read({}))).toEqual([]);
  server.put(SERVICES.path, service('web', 81));
  server.remove(SLICES.path, 'web-1');
  server.put(SLICES.path, slice('web-2'));
  expect(texts(await list.read({}))).toEqual([
    'put EndpointSlice web-2',
    'put Service web',
    'remove EndpointSlice web-1',
  ]);
});

test('an object that was made anew under its name is put', async () => {
  const { server, list } = await cluster();
  await list.read({});
  server.remove(SERVICES.path, 'web');
  server.put(SERVICES.path, service('web'));
  expect(texts(await list.read({}))).toEqual(['put Service web']);
});

test('what is forgotten is put again as it is, of those Services alone', async () => {
  const { server, list } = await cluster();
  server.put(SLICES.path, slice('dns-1', ['10.1.0.2'], { 'kubernetes.io/service-name': 'dns' }));
  await list.read({});
  expect(list.has({ kind: 'EndpointSlice', namespace: 'default', name: 'web-1' })).toBe(true);
  list.forget((name) => name === 'default/web');
  expect(texts(await list.read({}))).toEqual(['put EndpointSlice web-1', 'put Service web']);
});

test('pages are one list', async () => {
  const { server, list } = await cluster();
  const names = Array.from({ length: LIMITS.pageItems }, (_, index) => `s${index}`);
  for (const name of names) server.put(SERVICES.path, service(name));
  const { objects } = await list.read({});
  expect(objects).toBe(4 + names.length);
  const pages = server.seen.filter(({ path }) => path === SERVICES.path);
  expect(pages.map(({ query }) => query.get('continue'))).toEqual([null, String(names.length)]);
  expect(texts(await list.read({}))).toEqual([]);
});

test('if a later page fails, nothing has changed', async () => {
  const { server, list } = await cluster();
  await list.read({});
  for (let index = 0; index < LIMITS.pageItems; index += 1)
    server.put(SERVICES.path, service(`s${index}`));
  refuse(server, SERVICES.path, 410, (query) => query.has('continue'));
  await expect(list.read({})).rejects.toThrow();
  server.fault = undefined;
  expect(texts(await list.read({}))).toHaveLength(LIMITS.pageItems);
});

test('a list that is older than what is known is refused, and nothing of it is kept', async () => {
  const { server, list } = await cluster();
  const newer = String(server.version + 1);
  await expect(list.read({ EndpointSlice: newer })).rejects.toThrow(
    `${server.url} answers old lists: ${SLICES.path} of version ${server.version}, where ${newer} was known`,
  );
  expect(texts(await list.read({ EndpointSlice: String(server.version) }))).toEqual(ALL);
  server.version -= 1;
  await expect(list.read({})).rejects.toThrow('answers old lists');
});

test('an empty list of what is never empty is refused', async () => {
  const { server, list } = await cluster();
  await list.read({});
  server.remove(SLICES.path, 'web-1');
  await expect(list.read({})).rejects.toThrow(`an empty list of ${SLICES.path} is not believed`);
  expect(list.has({ kind: 'EndpointSlice', namespace: 'default', name: 'web-1' })).toBe(true);
});

test.each([403, 404])('%i: a kind that may be absent is, another is an error', async (code) => {
  const { server, list } = await cluster();
  refuse(server, SERVICE_CIDRS.path, code);
  expect(texts(await list.read({}))).toEqual(ALL);
  refuse(server, SLICES.path, code);
  await expect(list.read({})).rejects.toThrow(String(code));
});

test('a server that cannot select Services by their address is asked for all of them', async () => {
  const { server, list } = await cluster();
  server.put(SERVICES.path, { ...service('headless'), spec: { clusterIP: 'None' } });
  refuse(server, SERVICES.path, 400, (query) => query.has('fieldSelector'));
  expect(texts(await list.read({}))).toEqual(ALL);
  refuse(server, SERVICES.path, 400);
  await expect(list.read({})).rejects.toThrow('400');
});
