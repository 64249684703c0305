// SPDX-License-Identifier: Apache-2.0
// How long one change takes from the agent's accept() until the dataplane has programmed it: 1,000 Services
// with 10 endpoints each, 1,000 changes (`--changes`) of one endpoint, one after the other. Over real BPF maps (needs
// root), or with --memory over tables in memory. Needs `npm run build`; the script of npm builds those tables.
// `--json` prints one line. With `--history` the changes are recorded, too.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { createMemoryTables } from '../build/bench-js/test/support/tables/memory.js';
import { createAgent } from '../build/js/agent/agent.js';
import { createBpfDataplane } from '../build/js/engines/bpf/kernel/dataplane.js';
import { kernelTables } from '../build/js/engines/bpf/kernel/maps/kernel.js';
import { bpfCapabilities } from '../build/js/engines/capabilities.js';
import { createRouter } from '../build/js/engines/router/router.js';
import { openHistory } from '../build/js/instance/history/open.js';
import { createPlanner } from '../build/js/plan/planner.js';
import { openObject, waitGracePeriod } from '../build/js/sys/native.js';
import { ENDPOINTS, SETTINGS, serviceChange, sliceChange } from './plan-objects.mjs';

const SERVICES = 1_000;
const NODE_ADDRESSES = [{ family: 'IPv4', address: '192.0.2.11' }];
const OBJECT = fileURLToPath(new URL('../build/bpf/sock.bpf.o', import.meta.url));
const { values: options } = parseArgs({
  options: {
    memory: { type: 'boolean', default: false },
    changes: { type: 'string', default: '1000' },
    json: { type: 'boolean', default: false },
    history: { type: 'boolean', default: false },
  },
});
const isMemory = options.memory;
const CHANGES = Number(options.changes);
const WARMUPS = CHANGES / 2;

function openTables() {
  if (isMemory) {
    const sizes = { frontends: 65_536, backends: 131_072, slotBlocks: 65_536, services: 65_536 };
    return { tables: createMemoryTables(sizes), wait: () => new Promise(setImmediate) };
  }
  const object = openObject(readFileSync(OBJECT), { name: 'bench' });
  object.load();
  return { tables: kernelTables((name) => object.map(name)), wait: waitGracePeriod };
}

const log = { debug() {}, info() {}, warn: console.error, error: console.error };
const { tables, wait } = openTables();
/** @type {(facts: { isComplete: boolean }) => void} */
let synced = () => {};
const agent = createAgent({
  planner: createPlanner(SETTINGS),
  dataplane: createRouter([
    createBpfDataplane({
      capabilities: bpfCapabilities({ packets: false }),
      tables,
      waitGracePeriod: wait,
      installation: { hooks: [], refusesWith: 'ECONNREFUSED', cgroupRoot: '', bpfRoot: '' },
      outcomes: () => ({}),
      close: () => {},
      log,
    }),
  ]),
  log,
  addresses: { current: () => NODE_ADDRESSES, listen: () => {} },
  auditIntervalMs: 3_600_000,
});
agent.listen({ onSync: (facts) => synced(facts) });

/** Milliseconds until a sync has brought everything accepted so far. @param {() => void} ask */
function untilProgrammed(ask) {
  return new Promise((resolve) => {
    const startedAt = performance.now();
    synced = ({ isComplete }) => {
      if (isComplete) resolve(performance.now() - startedAt);
    };
    ask();
  });
}

const historyFolder = options.history ? mkdtempSync(join(tmpdir(), 'fairlead-history-')) : '';
const history = options.history
  ? openHistory(
      { dir: historyFolder, isNamed: true, maxBytes: 2 ** 26 },
      { agent, node: 'n1', log },
    )
  : undefined;

agent.accept(
  Array.from({ length: SERVICES }, (_, n) => [serviceChange(n), sliceChange(n, 0)]).flat(),
);
await untilProgrammed(() => agent.sourceSynced());
const spent = [];
for (let at = 0; at < WARMUPS + CHANGES; at += 1) {
  const change = sliceChange((at * 7919) % SERVICES, 1 + (at % 9));
  const ms = await untilProgrammed(() => {
    history?.arrived([change]);
    agent.accept([change]);
  });
  if (at >= WARMUPS) spent.push(ms);
  // What follows a change (releasing what it retired) is not the next one's.
  await new Promise((resolve) => setTimeout(resolve, 1));
}
await new Promise((resolve) => setTimeout(resolve, history === undefined ? 0 : 500));
const historyBytes = history?.view()?.writtenBytes;
history?.close();
if (historyFolder !== '') rmSync(historyFolder, { recursive: true });
agent.stop();

spent.sort((a, b) => a - b);
const at = (part) => spent[Math.floor(part * spent.length)];
const figures = {
  tables: isMemory ? 'memory' : 'kernel',
  p50Ms: at(0.5),
  p90Ms: at(0.9),
  p99Ms: at(0.99),
  maxMs: spent.at(-1),
  services: SERVICES,
  endpointsPerService: ENDPOINTS,
  changes: CHANGES,
  ...(historyBytes !== undefined && { historyBytes }),
};
if (options.json) {
  console.log(JSON.stringify(figures));
} else {
  const { p50Ms, p90Ms, p99Ms, maxMs } = figures;
  const text = [p50Ms, p90Ms, p99Ms, maxMs].map((ms) => ms?.toFixed(3)).join(' / ');
  console.log(`one change, ${figures.tables} tables: p50 / p90 / p99 / max ${text} ms`);
}
process.exit();
