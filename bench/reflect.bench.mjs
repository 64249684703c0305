// SPDX-License-Identifier: Apache-2.0
// What the first complete lists cost: 10,000 Services and 10,000 slices of 10 endpoints, from a server in
// this process to a fresh client process for each way and run. Needs `npm run build:ts`. `--json` prints
// one line per way. Median of the runs; the longest stall and the peak memory are the worst of them.
import { spawn } from 'node:child_process';
import { createServer } from 'node:http';
import { fileURLToPath } from 'node:url';
import {
  jsonList,
  protobufList,
  serviceBytes,
  services,
  sliceBytes,
  slices,
} from './reflect-objects.mjs';

const RUNS = 5;
const WAYS = ['watchlist', 'paged', 'one', 'protobuf'];
const NODE = { metadata: { name: 'n', resourceVersion: '1' }, status: { addresses: [] } };

const objects = {
  '/api/v1/services': services(),
  '/apis/discovery.k8s.io/v1/endpointslices': slices(),
  '/api/v1/nodes': [NODE],
};
const encoded = {
  '/api/v1/services': objects['/api/v1/services'].map(serviceBytes),
  '/apis/discovery.k8s.io/v1/endpointslices':
    objects['/apis/discovery.k8s.io/v1/endpointslices'].map(sliceBytes),
};

const mark = {
  resourceVersion: '3000000',
  annotations: { 'k8s.io/initial-events-end': 'true' },
};
const line = (/** @type {string} */ type, /** @type {unknown} */ object) =>
  JSON.stringify({ type, object });

/** Every body made once, so that the server's work is not in the figures. @type {Map<string, Buffer>} */
const bodies = new Map();
/** @param {string} key @param {() => Buffer} make */
function body(key, make) {
  const found = bodies.get(key) ?? make();
  bodies.set(key, found);
  return found;
}

const server = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? '', 'http://x');
  const [, way = '', ...rest] = pathname.split('/');
  const path = `/${rest.join('/')}`;
  const isWatch = searchParams.has('watch');
  const isInitial = searchParams.has('sendInitialEvents');
  if (isInitial && way !== 'watchlist') {
    response.writeHead(422).end('{}');
  } else if (isWatch) {
    response.flushHeaders();
    if (!isInitial) return;
    const all = objects[path].map((object) => line('ADDED', object));
    const text = () =>
      Buffer.from(`${[...all, line('BOOKMARK', { metadata: mark })].join('\n')}\n`);
    response.write(body(`${way} ${path}`, text));
  } else {
    const from = Number(searchParams.get('continue') ?? 0);
    const limit = way === 'one' ? 1e9 : 500;
    const source = way === 'protobuf' ? encoded[path] : objects[path];
    const token = from + limit < source.length ? String(from + limit) : '';
    const items = source.slice(from, from + limit);
    const list = way === 'protobuf' ? protobufList : jsonList;
    response.end(body(`${way} ${path} ${from}`, () => list(items, token)));
  }
});

/** @param {string} way @param {number} port */
async function measure(way, port) {
  const script = fileURLToPath(new URL('./reflect-client.mjs', import.meta.url));
  const child = spawn(process.execPath, [script, way, `http://127.0.0.1:${port}`], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  for await (const chunk of child.stdout) text += chunk;
  return JSON.parse(text);
}

const median = (/** @type {number[]} */ values) => values.sort((a, b) => a - b)[values.length >> 1];

await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
const rows = [];
for (const way of WAYS) {
  await measure(way, port);
  const runs = [];
  for (let run = 0; run < RUNS; run += 1) runs.push(await measure(way, port));
  const of = (/** @type {string} */ key) => runs.map((run) => run[key]);
  rows.push({
    way,
    objects: runs[0].objects,
    endpoints: runs[0].endpoints,
    megabytes: Number((runs[0].bytes / 1e6).toFixed(1)),
    wallMs: Math.round(median(of('wallMs'))),
    cpuMs: Math.round(median(of('cpuMs'))),
    decodeMs: Math.round(median(of('decodeMs'))),
    longestStallMs: Math.round(Math.max(...of('longestStallMs'))),
    startRssMib: Math.round(median(of('startRssMib'))),
    peakRssMib: Math.round(Math.max(...of('peakRssMib'))),
  });
}
server.close();
server.closeAllConnections();
if (process.argv.includes('--json')) for (const row of rows) console.log(JSON.stringify(row));
else console.table(rows);
