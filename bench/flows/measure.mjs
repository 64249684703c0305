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

const XDP_OBJECTS = ['xdp.bpf.o', 'xdp_watch.bpf.o'];
/** Of XDP alone. */
const OWN_MAPS = ['fl_xdp_count'];

/** The maps of all layers: flow tables for this many flows of the kind, and for one of any other. */
function openMaps(kind, flows, withXdp) {
  const socket = openObject(objectFile('sock.bpf.o'), { name: 'bench' });
  const packet = openObject(objectFile('packet.bpf.o'), { name: 'bench' });
  socket.load();
  setSizes(packet, kind, flows);
  for (const name of packet.maps) {
    if (socket.maps.includes(name) && !name.includes('.')) packet.reuseMap(name, socket.map(name));
  }
  packet.load();
  const maps = (name) => (packet.maps.includes(name) ? packet.map(name) : socket.map(name));
  const openXdp = (name) => openWith(name, { maps, kind, flows });
  return { socket, packet, xdp: withXdp ? XDP_OBJECTS.map(openXdp) : [] };
}

function setSizes(object, kind, flows) {
  const wanted = new Set((kind?.legs ?? []).map((leg) => `fl_${leg}${kind.digit}`));
  for (const name of Object.keys(maxEntries({ flows }))) {
    if (object.maps.includes(name)) object.setMaxEntries(name, wanted.has(name) ? flows : 1);
  }
}

/** As the agent loads them: on the maps that there are. */
function openWith(objectName, { maps, kind, flows }) {
  const object = openObject(objectFile(objectName), { name: 'bench' });
  setSizes(object, kind, flows);
  for (const name of object.maps) {
    if (!name.includes('.') && !OWN_MAPS.includes(name)) object.reuseMap(name, maps(name));
  }
  object.load();
  return object;
}

/** Without flows, then with each number of them. */
async function measure({ kind, counts, services, xdp: withXdp }) {
  const before = meter.read();
  const { socket, packet, xdp } = openMaps(kind, counts.at(-1), withXdp);
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
  // Held until here: what nobody holds is gone.
  return { meter: meter.name, empty, full, programs: xdp.length };
}

const meter = openMeter();
try {
  const task = JSON.parse(process.argv[2]);
  console.log(JSON.stringify(await measure({ ...task, kind: KINDS[task.kind] })));
} finally {
  meter.close();
}
process.exit();
