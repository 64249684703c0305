// SPDX-License-Identifier: Apache-2.0
// A process of flows.bench.mjs: measures the maps for so many connections, and prints JSON. Each in a process of its own,
// because the kernel gives the memory of closed maps back late.
import { readFileSync } from 'node:fs';
import { openMeter } from './memory-meter.mjs';
import { fillServices } from './services.mjs';

const load = (path) => import(new URL(`../../build/js/${path}`, import.meta.url));
const { maxEntries } = await load('engines/bpf/layout/sizes.js');
const { connRodata } = await load('engines/bpf/conn/sizes.js');
const { openObject } = await load('sys/native.js');

const objectFile = (name) => readFileSync(new URL(`../../build/bpf/${name}`, import.meta.url));

const XDP_OBJECTS = ['xdp.bpf.o', 'xdp_watch.bpf.o'];
/** Of XDP alone. */
const OWN_MAPS = ['fl_xdp_count'];

/** As the agent loads them: on the maps that there are. */
function openWith(objectName, sizes, shared) {
  const object = openObject(objectFile(objectName), { name: 'bench' });
  for (const [name, value] of Object.entries(connRodata(sizes))) {
    if (object.maps.includes('fl_client4')) object.setRodata(name, value);
  }
  for (const name of object.maps) {
    if (sizes[name] !== undefined) object.setMaxEntries(name, sizes[name]);
    const map = name.includes('.') || OWN_MAPS.includes(name) ? undefined : shared(name);
    if (map !== undefined) object.reuseMap(name, map);
  }
  object.load();
  return object;
}

/** The maps of all layers. */
function openMaps({ flows4, flows6, xdp }) {
  const sizes = maxEntries({ flows4, flows6 });
  const objects = [];
  const shared = (name) => objects.find(({ maps }) => maps.includes(name))?.map(name);
  for (const name of ['sock.bpf.o', 'packet.bpf.o', ...(xdp ? XDP_OBJECTS : [])]) {
    objects.push(openWith(name, sizes, shared));
  }
  return { objects, map: shared };
}

async function measure(task) {
  const before = meter.read();
  const { objects, map } = openMaps(task);
  await fillServices(map, task.services);
  const bytes = meter.read() - before;
  // Held until here: what nobody holds is gone.
  return { meter: meter.name, bytes, objects: objects.length };
}

const meter = openMeter();
try {
  console.log(JSON.stringify(await measure(JSON.parse(process.argv[2]))));
} finally {
  meter.close();
}
process.exit();
