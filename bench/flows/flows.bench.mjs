// SPDX-License-Identifier: Apache-2.0
// Kernel memory of connections: all maps of fairlead with 10,000 Services in them, and the table of connections of each
// family, made for 10k, 100k and 1M of them. It is made at once: a connection takes no memory more, masqueraded or not.
// `--json` prints one line, `--flows 1000,20000` other numbers of connections, `--xdp` loads the programs at XDP, too.
// Needs root, 1 GB and a build.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const SERVICES = 10_000;
const GOAL_BYTES = 0.35e9;
const MILLION = 1_000_000;

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

/** Bytes of all maps, with tables for so many connections. */
function measure(flows4, flows6) {
  const file = fileURLToPath(new URL('measure.mjs', import.meta.url));
  const task = JSON.stringify({ flows4, flows6, services: SERVICES, xdp: values.xdp });
  return JSON.parse(execFileSync(process.execPath, [file, task], { encoding: 'utf8' }));
}

const { meter, bytes: otherBytes } = measure(1, 1);
const rows = counts.flatMap((flows) =>
  ['IPv4', 'IPv6'].map((family) => {
    const { bytes } = family === 'IPv4' ? measure(flows, 1) : measure(1, flows);
    return { family, flows, tableBytes: bytes - otherBytes, otherBytes };
  }),
);
const figures = { services: SERVICES, meter, rows };
console.log(values.json ? JSON.stringify(figures) : textOf(figures));

function textOf({ services, rows, meter }) {
  const mb = (bytes) => (bytes / 1e6).toFixed(1);
  const head = ['connections', '', 'bytes each', 'table', `+ ${services} Services`, ''];
  const lines = rows.map(({ family, flows, tableBytes, otherBytes }) => {
    const goal = flows < MILLION ? '' : tableBytes <= GOAL_BYTES ? 'met' : 'missed';
    const sizes = [tableBytes, tableBytes + otherBytes].map(mb);
    return [String(flows), family, String(Math.round(tableBytes / flows)), ...sizes, goal];
  });
  const title = `kernel memory in MB, by ${meter}; goal for a million of one family: ${mb(GOAL_BYTES)}`;
  return [title, ...[head, ...lines].map(rowText)].join('\n');
}

function rowText([flows, family, each, ...sizes]) {
  const columns = sizes.map((size) => size.padStart(16));
  return [flows.padStart(11), ` ${family.padEnd(6)}`, each.padStart(10), ...columns].join(' ');
}
