// SPDX-License-Identifier: Apache-2.0
// Decoding alone, in memory: pages of 500 objects as JSON, taken apart and reduced as the product does, and
// as protobuf, decoded by hand into the same objects. Processor time, best of the runs. Needs
// `npm run build:ts`. `--json` prints one line.

import { createIntern } from '../build/js/source/apiserver/decode/intern.js';
import { ItemSplitter } from '../build/js/source/apiserver/decode/items.js';
import { createDecoder } from '../build/js/source/apiserver/decode/watch-events.js';
import { SERVICES, SLICES } from '../build/js/source/apiserver/kinds.js';
import {
  jsonList,
  protobufList,
  serviceBytes,
  services,
  sliceBytes,
  slices,
} from './reflect-objects.mjs';
import { readList, readService, readSlice } from './reflect-protobuf.mjs';

const RUNS = 7;
const PAGE = 500;

/** @template T @param {T[]} items @param {(page: T[]) => Buffer} encode */
function pages(items, encode) {
  const made = [];
  for (let from = 0; from < items.length; from += PAGE)
    made.push(encode(items.slice(from, from + PAGE)));
  return made;
}

const bytes = (/** @type {Buffer[]} */ made) => made.reduce((sum, page) => sum + page.length, 0);

/** @param {() => unknown[]} decode */
function bestMs(decode) {
  let best = Number.POSITIVE_INFINITY;
  for (let run = 0; run < RUNS; run += 1) {
    const before = process.cpuUsage();
    const found = decode();
    const { user, system } = process.cpuUsage(before);
    best = Math.min(best, (user + system) / 1000);
    if (found.length !== 10_000) throw new Error(`decoded ${found.length} objects`);
  }
  return Math.round(best);
}

/** @param {import('../build/js/source/apiserver/kinds.js').KindSpec} spec @param {Buffer[]} bodies */
function json(spec, bodies) {
  const decoder = createDecoder(spec, createIntern());
  const found = [];
  for (const body of bodies) {
    const splitter = new ItemSplitter();
    // As chunks come from a socket.
    for (let at = 0; at < body.length; at += 65_536) {
      for (const item of splitter.push(body.subarray(at, at + 65_536)))
        found.push(decoder.item(item));
    }
    splitter.envelope();
  }
  return found;
}

/** @param {Buffer[]} bodies */
function splitOnly(bodies) {
  const found = [];
  for (const body of bodies) found.push(...new ItemSplitter().push(body));
  return found;
}

/** @param {Function} readItem @param {Buffer[]} bodies */
function protobuf(readItem, bodies) {
  const intern = createIntern();
  return bodies.flatMap((body) => readList(body, readItem, intern).items);
}

const rows = [];
for (const [spec, objects, encode, readItem] of /** @type {const} */ ([
  [SERVICES, services(), serviceBytes, readService],
  [SLICES, slices(), sliceBytes, readSlice],
])) {
  const jsonPages = pages(objects, (page) => jsonList(page, ''));
  const protobufPages = pages(objects.map(encode), (page) => protobufList(page, ''));
  rows.push({
    kind: spec.kind,
    jsonMegabytes: Number((bytes(jsonPages) / 1e6).toFixed(1)),
    protobufMegabytes: Number((bytes(protobufPages) / 1e6).toFixed(1)),
    jsonMs: bestMs(() => json(spec, jsonPages)),
    ofWhichSplitMs: bestMs(() => splitOnly(jsonPages)),
    protobufMs: bestMs(() => protobuf(readItem, protobufPages)),
  });
}
if (process.argv.includes('--json')) console.log(JSON.stringify(rows));
else console.table(rows);
