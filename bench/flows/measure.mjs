// SPDX-License-Identifier: Apache-2.0
// A process of flows.bench.mjs: measures one kind of flows, or without a kind everything else, and prints JSON. Each in a
// process of its own, because the kernel gives the memory of closed maps back late.
import { readFileSync } from 'node:fs';
import { batchesOf, KINDS } from './flow-legs.mjs';
import { openMeter } from './memory-meter.mjs';
import { fillServices } from './services.mjs';

const load = (path) => import(new URL(`../../build/js/${path}`, import.meta.url));
const { maxEntries } = await load('dataplane/bpf/loader/sizes.js');
const { openObject } = await load('sys/native.js');

const objectFile = (name) => readFileSync(new URL(`../../build/bpf/${name}`, import.meta.url));

/** The maps of both layers: flow tables for this many flows of the kind, and for one of any other. */
function openMaps(kind, flows) {
  const wanted = new Set((kind?.legs ?? []).map((leg) => `fl_${leg}${kind.digit}`));
  const socket = openObject(objectFile('sock.bpf.o'), { name: 'bench' });
  const packet = openObject(objectFile('packet.bpf.o'), { name: 'bench' });
  socket.load();
  for (const name of Object.keys(maxEntries({ flows }))) {
    packet.setMaxEntries(name, wanted.has(name) ? flows : 1);
  }
  for (const name of packet.maps) {
    if (socket.maps.includes(name) && !name.includes('.')) packet.reuseMap(name, socket.map(name));
  }
  packet.load();
  return { socket, packet };
}

/** Without flows, then with each number of them. */
async function measure({ kind, counts, services }) {
  const before = meter.read();
  const { socket, packet } = openMaps(kind, counts.at(-1));
  await fillServices((name) => socket.map(name), services);
  const empty = meter.read() - before;
  const full = counts.map((flows, at) => {
    const span = { from: counts[at - 1] ?? 0, to: flows };
    for (const { map, keys, values } of kind ? batchesOf(kind, span, packet) : []) {
      const { error } = map.putBatch(keys, values);
      if (error !== undefined) throw error;
    }
    return meter.read() - before - empty;
  });
  return { meter: meter.name, empty, full };
}

const meter = openMeter();
try {
  const { kind, counts, services } = JSON.parse(process.argv[2]);
  console.log(JSON.stringify(await measure({ kind: KINDS[kind], counts, services })));
} finally {
  meter.close();
}
process.exit();
