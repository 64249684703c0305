// SPDX-License-Identifier: Apache-2.0
// What `fairlead compare` takes: the plan and iptables rules of 10,000 Services (`--services`) with 10 endpoints each, every
// second one with a NodePort. The rules are a file, as kube-proxy writes them. Needs `npm run build:ts`, and a network namespace
// of its own, to which it gives the address of the node. `--json` prints one line.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { createRenderer } from '../build/js/engines/iptables/rows/render.js';
import { printJumpRule, printRule } from '../build/js/engines/iptables/rules/print.js';
import { createPlanner } from '../build/js/plan/planner.js';
import { ENDPOINTS, SETTINGS, serviceChange, sliceChange } from './plan-objects.mjs';

const PROGRAM = fileURLToPath(new URL('../dist/main.js', import.meta.url));
const NODE = '192.0.2.11';
const FIRST_NODE_PORT = 30_000;
/** Files of a folder of manifests are read one by one. */
const A_FILE = 400;
const RENDER = {
  masqueradeBit: 14,
  hasRandomFully: true,
  hasLocalhostNodePorts: true,
  isTcpLiberal: false,
  accounting: [],
};
const { values: options } = parseArgs({
  options: {
    services: { type: 'string', default: '10000' },
    json: { type: 'boolean', default: false },
  },
});

const services = Array.from({ length: Number(options.services) }, (_, service) => {
  const change = serviceChange(service);
  if (service % 2 === 0) {
    change.object.spec.type = 'NodePort';
    change.object.spec.ports[0].nodePort = FIRST_NODE_PORT + service;
  }
  return change;
});
const changes = services.flatMap((change, service) => [change, sliceChange(service, 0)]);
const API_VERSIONS = { Service: 'v1', EndpointSlice: 'discovery.k8s.io/v1' };
const objects = changes.map(({ ref: { kind, namespace, name }, object }) => ({
  apiVersion: API_VERSIONS[kind],
  ...{ kind, ...object, metadata: { ...object.metadata, namespace, name } },
}));

const folder = mkdtempSync(join(tmpdir(), 'fairlead-bench-compare-'));
try {
  for (let at = 0; at < objects.length; at += A_FILE) {
    const list = { apiVersion: 'v1', kind: 'List', items: objects.slice(at, at + A_FILE) };
    writeFileSync(join(folder, `${at}.json`), JSON.stringify(list));
  }
  const rules = join(folder, 'rules.save');
  writeFileSync(rules, rulesText());
  execFileSync('ip', ['link', 'set', 'lo', 'up']);
  execFileSync('ip', ['address', 'add', `${NODE}/24`, 'dev', 'lo']);
  print(measured(rules));
} finally {
  rmSync(folder, { recursive: true });
}

function rulesText() {
  const plan = createPlanner(SETTINGS).apply(changes);
  const [first] = createRenderer(RENDER).render(plan);
  const { family, tables } = first;
  return tables
    .map(({ name, chains, jumps }) =>
      [
        `*${name}`,
        ...chains.map((chain) => `:${chain.name} - [0:0]`),
        ...jumps.map(({ from, rule }) => `-A ${from} ${printJumpRule(rule, family)}`),
        ...chains.flatMap((chain) =>
          chain.rules.map((rule) => `-A ${chain.name} ${printRule(rule, family)}`.trimEnd()),
        ),
        'COMMIT\n',
      ].join('\n'),
    )
    .join('');
}

/** @param {string} rules */
function measured(rules) {
  const says = 'process.on("exit",()=>console.log(JSON.stringify(process.resourceUsage())))';
  const [cidr] = SETTINGS.clusterCidrs;
  const flags = ['--hostname-override', SETTINGS.nodeName, '--cluster-cidr', cidr];
  const printed = execFileSync(
    process.execPath,
    [
      ...['--import', `data:text/javascript,${says}`],
      ...[PROGRAM, 'compare', 'plan', rules, '--manifests', folder, '--retry-after', '1ms'],
      ...flags,
    ],
    { encoding: 'utf8' },
  );
  const lines = printed.trim().split('\n');
  const { userCPUTime, systemCPUTime, maxRSS } = JSON.parse(lines.at(-1));
  return { seconds: (userCPUTime + systemCPUTime) / 1e6, mib: maxRSS / 1024, text: lines[0] };
}

/** @param {ReturnType<typeof measured>} found */
function print({ seconds, mib, text }) {
  const result = { services: services.length, endpoints: ENDPOINTS, seconds, mib };
  if (options.json) console.log(JSON.stringify(result));
  else console.log(`${text}\n${seconds.toFixed(1)} s of CPU, ${mib.toFixed(0)} MiB at most`);
}
