// SPDX-License-Identifier: Apache-2.0
// The measured process of reflect.bench.mjs: one way to the first complete lists, then its figures as one
// line of JSON. Arguments: way, server URL.
import { readFileSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { request } from 'undici';
import { openCluster } from '../build/js/source/apiserver/cluster.js';
import { createIntern } from '../build/js/source/apiserver/decode/intern.js';
import { readList, readService, readSlice } from './reflect-protobuf.mjs';

const [, , way = '', url = ''] = process.argv;

/** Processor time of this thread: what other threads and other processes use is not our stall. */
function ownMs() {
  const [nanoseconds = '0'] = readFileSync(
    `/proc/self/task/${process.pid}/schedstat`,
    'utf8',
  ).split(' ');
  return Number(nanoseconds) / 1e6;
}

let longestStallMs = 0;
let lastMs = ownMs();
const ticker = setInterval(() => {
  const nowMs = ownMs();
  longestStallMs = Math.max(longestStallMs, nowMs - lastMs);
  lastMs = nowMs;
}, 1);

/** Keeps what a proxy keeps: the pruned objects themselves are dropped. */
const seen = { objects: 0, endpoints: 0 };
/** @param {any} object */
function take(object) {
  seen.objects += 1;
  seen.endpoints += object.endpoints?.length ?? 0;
}

/** The product, as it is. @returns {Promise<{ decodeMs: number, bytes: number }>} */
function reflect() {
  return new Promise((resolve) => {
    const silent = () => undefined;
    const cluster = openCluster(
      {
        nodeName: 'n',
        apiServer: {
          servers: [{ url: `${url}/${way}`, tlsName: undefined }],
          credentials: { kind: 'none' },
          winner: 'api-server flag',
          why: 'bench',
          passedOver: [],
        },
        runDir: undefined,
        watchesServiceCidrs: false,
        userAgent: 'bench',
        log: { info: silent, warn: silent, debug: silent },
      },
      {
        onChanges: (changes) => {
          for (const change of changes) if (change.type === 'put') take(change.object);
        },
        onSynced() {
          const counters = cluster.status().watches.map((watch) => watch.counters);
          const sum = (/** @type {'bytes' | 'decodeSeconds'} */ key) =>
            counters.reduce((total, each) => total + each[key], 0);
          void cluster.close();
          resolve({ decodeMs: sum('decodeSeconds') * 1000, bytes: sum('bytes') });
        },
        onProblems: silent,
      },
    );
  });
}

/** Pages of protobuf, each read as a whole: its lists cannot be taken apart while they flow with less. */
async function protobuf() {
  const intern = createIntern();
  const figures = { decodeMs: 0, bytes: 0 };
  const kinds = [
    ['/api/v1/services', readService],
    ['/apis/discovery.k8s.io/v1/endpointslices', readSlice],
  ];
  const follow = async (/** @type {any[]} */ [path, readItem]) => {
    let token = '';
    do {
      const query = token === '' ? '' : `&continue=${token}`;
      const { body } = await request(`${url}/${way}${path}?limit=500${query}`);
      const bytes = Buffer.from(await body.arrayBuffer());
      const startMs = performance.now();
      const page = readList(bytes, readItem, intern);
      figures.decodeMs += performance.now() - startMs;
      figures.bytes += bytes.length;
      for (let from = 0; from < page.items.length; from += 250) {
        for (const item of page.items.slice(from, from + 250)) take(item);
        await nextTurn();
      }
      token = page.token;
    } while (token !== '');
  };
  await Promise.all(kinds.map(follow));
  return figures;
}

/** Not resourceUsage().maxRSS: that begins with the memory of the process that forked us. */
function peakRssMib() {
  const [, kib = '0'] = /^VmHWM:\s+(\d+)/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  return Number(kib) / 1024;
}

const startRssMib = process.memoryUsage().rss / 2 ** 20;
const startMs = performance.now();
const { user, system } = process.cpuUsage();
const figures =
  way === 'none' ? { decodeMs: 0, bytes: 0 } : await (way === 'protobuf' ? protobuf() : reflect());
const wallMs = performance.now() - startMs;
const cpu = process.cpuUsage();
clearInterval(ticker);
process.stdout.write(
  `${JSON.stringify({
    way,
    ...seen,
    wallMs,
    cpuMs: (cpu.user + cpu.system - user - system) / 1000,
    ...figures,
    longestStallMs,
    startRssMib,
    peakRssMib: peakRssMib(),
  })}\n`,
);
process.exit(0);
