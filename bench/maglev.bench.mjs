// SPDX-License-Identifier: Apache-2.0
// What tables of Maglev cost the agent: 10,000 Services (`--services`) with 10 endpoints each are programmed, changed one
// endpoint at a time, and adopted by a second agent. The longest turn of the event loop, CPU time and memory. Over real BPF
// maps (needs root), or with --memory over tables in memory. `--algorithm random` for comparison. Needs `npm run build`;
// the script of npm builds those tables.
// As the agent, with the flags of the first line of dist/main.js.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { createMemoryTables } from '../build/bench-js/test/support/tables/memory.js';
import { createBpfDataplane } from '../build/js/engines/bpf/kernel/dataplane.js';
import { kernelTables } from '../build/js/engines/bpf/kernel/maps/kernel.js';
import { bpfCapabilities } from '../build/js/engines/capabilities.js';
import { differences } from '../build/js/lib/persistent/map.js';
import { createPlanner } from '../build/js/plan/planner.js';
import { openObject, waitGracePeriod } from '../build/js/sys/native.js';
import { SETTINGS, serviceChange, sliceChange } from './plan-objects.mjs';

const OBJECT = fileURLToPath(new URL('../build/bpf/sock.bpf.o', import.meta.url));
const BLOCK_BYTES = 64;
const { values: options } = parseArgs({
  options: {
    memory: { type: 'boolean', default: false },
    services: { type: 'string', default: '10000' },
    algorithm: { type: 'string', default: 'maglev' },
  },
});
const SERVICES = Number(options.services);
const SIZES = { frontends: 65_536, backends: 262_144, slotBlocks: 800_000, services: 65_536 };

function openTables() {
  if (options.memory)
    return { tables: createMemoryTables(SIZES), wait: () => new Promise(setImmediate) };
  const object = openObject(readFileSync(OBJECT), { name: 'bench' });
  object.setMaxEntries('fl_slot_block', SIZES.slotBlocks);
  object.load();
  return { tables: kernelTables((name) => object.map(name)), wait: waitGracePeriod };
}

const { tables, wait } = openTables();
const open = () =>
  createBpfDataplane({
    capabilities: bpfCapabilities({ packets: false }),
    tables,
    waitGracePeriod: wait,
    installation: { hooks: [], refusesWith: 'ECONNREFUSED', cgroupRoot: '', bpfRoot: '' },
    outcomes: () => ({}),
    close: () => {},
    log: { info() {}, warn: console.error },
  });

/** Of the thread of the event loop; before Node 23.9 of all threads. */
const cpuUsage = (since) => (process.threadCpuUsage ?? process.cpuUsage).call(process, since);

/** The longest turns of the event loop while `work` runs: by the clock, and by CPU time, which other programs do not disturb. */
async function turnsOf(work) {
  const longest = { wallMs: 0, cpuMs: 0 };
  let isDone = false;
  let at = performance.now();
  let cpu = cpuUsage();
  const tick = () => {
    const used = cpuUsage(cpu);
    longest.wallMs = Math.max(longest.wallMs, performance.now() - at);
    longest.cpuMs = Math.max(longest.cpuMs, (used.user + used.system) / 1000);
    at = performance.now();
    cpu = cpuUsage();
    if (!isDone) setImmediate(tick);
  };
  setImmediate(tick);
  const before = process.cpuUsage();
  const startedAt = performance.now();
  await work();
  const all = process.cpuUsage(before);
  isDone = true;
  await new Promise(setImmediate);
  return {
    ...longest,
    totalMs: performance.now() - startedAt,
    totalCpuMs: (all.user + all.system) / 1000,
  };
}

const shown = ({ wallMs, cpuMs, totalMs, totalCpuMs }) =>
  `${totalMs.toFixed(0)} ms, ${totalCpuMs.toFixed(0)} ms of CPU; longest turn ${wallMs.toFixed(1)} ms, ${cpuMs.toFixed(1)} ms of CPU`;

/** One Service with so many endpoints. */
function largeSlice(service, endpoints) {
  const change = sliceChange(service, 0);
  const [first] = change.object.endpoints;
  const addresses = Array.from(
    { length: endpoints },
    (_, i) => `10.${64 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}`,
  );
  return {
    ...change,
    object: {
      ...change.object,
      endpoints: addresses.map((address) => ({ ...first, addresses: [address] })),
    },
  };
}

const planner = createPlanner({ ...SETTINGS, algorithm: options.algorithm });
const plan = planner.apply(
  Array.from({ length: SERVICES }, (_, n) => [serviceChange(n), sliceChange(n, 0)]).flat(),
);
const dataplane = open();
const blocks = (of) => of.counters().tables.find(({ name }) => name === 'fl_slot_block')?.used ?? 0;
globalThis.gc?.();
const heapBefore = process.memoryUsage();
const lines = [];
lines.push(`${options.algorithm}, ${SERVICES} Services × 10`);
lines.push(`  first sync: ${shown(await turnsOf(() => dataplane.sync(plan, 'all', [])))}`);
globalThis.gc?.();
const heap = process.memoryUsage();
lines.push(`  slots in the kernel: ${((blocks(dataplane) * BLOCK_BYTES) / 1e6).toFixed(1)} MB`);
lines.push(
  `  heap of the agent: +${((heap.heapUsed - heapBefore.heapUsed) / 1e6).toFixed(1)} MB, other memory +${((heap.external - heapBefore.external) / 1e6).toFixed(1)} MB`,
);
lines.push(`  nothing changed: ${shown(await turnsOf(() => dataplane.sync(plan, 'all', [])))}`);
let last = plan;
const apply = (from, changes) => {
  const next = from.apply(changes);
  const changed = differences(last.services, next.services);
  last = next;
  return { plan: next, changed };
};
const change = apply(planner, [sliceChange(7, 1)]);
lines.push(
  `  one endpoint changed: ${shown(await turnsOf(() => dataplane.sync(change.plan, change.changed, [])))}`,
);
const second = open();
lines.push(`  the next agent: ${shown(await turnsOf(() => second.sync(change.plan, 'all', [])))}`);
for (const endpoints of [100, 1_310, 5_000]) {
  const large = apply(planner, [largeSlice(8, endpoints)]);
  lines.push(
    `  a Service with ${endpoints} endpoints: ${shown(await turnsOf(() => second.sync(large.plan, large.changed, [])))}`,
  );
}
const many = createPlanner({ ...SETTINGS, algorithm: options.algorithm });
last = many.current();
const large = apply(
  many,
  Array.from({ length: 50 }, (_, n) => [serviceChange(n), largeSlice(n, 100)]).flat(),
);
lines.push(
  `  50 Services with 100 endpoints: ${shown(await turnsOf(() => second.sync(large.plan, large.changed, [])))}`,
);
console.log(lines.join('\n'));
process.exit();
