// SPDX-License-Identifier: Apache-2.0
// Kernel memory of flows: all maps of fairlead with 10,000 Services in them, then the flow tables filled with 10k, 100k
// and 1M flows of each kind. Entries are written as the packet programs write them, a leg for each address that a hook
// sees. `--json` prints one line, `--flows 1000,20000` other numbers of flows, `--xdp` loads the programs at XDP,
// too. Needs root, 3 GB and a build.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { KINDS } from './flow-legs.mjs';

const SERVICES = 10_000;
const GOAL_BYTES = 0.35e9;

const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    flows: { type: 'string', default: '10000,100000,1000000' },
    xdp: { type: 'boolean', default: false },
  },
});
const counts = values.flows
  .split(',')
  .map(Number)
  .toSorted((a, b) => a - b);

/** @param {number} [kind] an index of KINDS */
function measure(kind) {
  const file = fileURLToPath(new URL('measure.mjs', import.meta.url));
  const task = JSON.stringify({ kind, counts, services: SERVICES, xdp: values.xdp });
  return JSON.parse(execFileSync(process.execPath, [file, task], { encoding: 'utf8' }));
}

const { meter, empty: otherBytes } = measure();
const rows = KINDS.flatMap(({ name }, kind) => {
  const { empty, full } = measure(kind);
  return counts.map((flows, at) => ({
    kind: name,
    flows,
    elementBytes: full[at],
    bucketBytes: empty - otherBytes,
    otherBytes,
  }));
});
const figures = { services: SERVICES, capacity: counts.at(-1), meter, rows };
console.log(values.json ? JSON.stringify(figures) : textOf(figures));

function textOf({ services, capacity, rows, meter }) {
  const mb = (bytes) => (bytes / 1e6).toFixed(1);
  const head = ['flows', '', 'bytes each', 'elements', '+ buckets', `+ ${services} Services`];
  const lines = rows.map(({ kind, flows, elementBytes, bucketBytes, otherBytes }) => {
    const flowBytes = elementBytes + bucketBytes;
    const goal = flows < 1_000_000 ? '' : flowBytes <= GOAL_BYTES ? 'met' : 'missed';
    const sizes = [elementBytes, flowBytes, flowBytes + otherBytes].map(mb);
    return [String(flows), kind, String(Math.round(elementBytes / flows)), ...sizes, goal];
  });
  const title = `kernel memory in MB, by ${meter}; tables for ${capacity} flows; goal for a million: ${mb(GOAL_BYTES)}`;
  return [title, ...[head, ...lines].map(rowText)].join('\n');
}

function rowText([flows, kind, each, ...sizes]) {
  const columns = sizes.map((size) => size.padStart(16));
  return [flows.padStart(9), ` ${kind.padEnd(18)}`, each.padStart(10), ...columns].join(' ');
}
