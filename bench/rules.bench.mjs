// SPDX-License-Identifier: Apache-2.0
// What iptables-restore takes, by itself, for the rules of 1,000, 5,000 and 10,000 Services with 10 endpoints each: lines, wall and
// CPU time of the first sync and of one changed endpoint, with iptables-legacy and iptables-nft; and the agent's own CPU time to
// make that input. Needs root and a network namespace of its own: `npm run bench:rules [-- SERVICES...]`.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { applyDiffs } from '../build/js/dataplane/iptables/diff/apply.js';
import { diffTables } from '../build/js/dataplane/iptables/diff/diff.js';
import { restoreInput } from '../build/js/dataplane/iptables/diff/restore-input.js';
import { createRenderer } from '../build/js/dataplane/iptables/render/render.js';
import { RESTORE_ARGUMENTS } from '../build/js/dataplane/iptables/restore/tools.js';
import { CHAINS_AT_ONCE } from '../build/js/dataplane/iptables/restore/variant.js';
import { rulesetPrinter } from '../build/js/dataplane/iptables/wanted.js';
import { createPlanner } from '../build/js/plan/planner.js';
import { SETTINGS, serviceChange, sliceChange } from './plan-objects.mjs';

const CHANGES = 7;
const RENDERING = {
  masqueradeBit: 14,
  hasLocalhostNodePorts: true,
  hasRandomFully: true,
  isTcpLiberal: false,
  accounting: [],
};
const NO_RULES = ['nat', 'filter', 'mangle'].map((table) => `*${table}\nCOMMIT\n`).join('');
const folder = mkdtempSync(join(tmpdir(), 'fairlead-bench-rules-'));
const env = { ...process.env, XTABLES_LOCKFILE: join(folder, 'lock') };

const cpuSeconds = ({ userCPUTime, systemCPUTime }) => (userCPUTime + systemCPUTime) / 1e6;
const ownSeconds = () => cpuSeconds(process.resourceUsage());

/** time(1) of bash is the last line that it prints. @param {string} variant @param {string} input */
function restore(variant, input) {
  const command = `TIMEFORMAT='%R %U %S'; time iptables-${variant}-restore ${RESTORE_ARGUMENTS.join(' ')}`;
  const { status, stderr } = spawnSync('bash', ['-c', command], { input, env, encoding: 'utf8' });
  if (status !== 0) throw new Error(`iptables-${variant}-restore: ${stderr}`);
  const [wall, user, system] = stderr.trim().split('\n').at(-1).split(' ').map(Number);
  return { wall, cpu: user + system };
}

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
const lines = (input) => (input.match(/\n/g) ?? []).length;

/** @param {string} variant @param {number} services */
function measure(variant, services) {
  const planner = createPlanner(SETTINGS);
  const renderer = createRenderer(RENDERING);
  const print = rulesetPrinter('IPv4');
  const held = new Map();
  let written;
  const sync = (changes) => {
    planner.apply(changes);
    const startedAt = ownSeconds();
    const wanted = print(renderer.render(planner.current()).find((one) => one.family === 'IPv4'));
    const diffs = diffTables(held, wanted, written);
    const input = restoreInput(diffs, CHAINS_AT_ONCE[variant]);
    applyDiffs(held, diffs);
    written = wanted;
    const own = ownSeconds() - startedAt;
    return { input, own, ...restore(variant, input) };
  };
  const numbers = Array.from({ length: services }, (_, number) => number);
  const full = sync(numbers.flatMap((number) => [serviceChange(number), sliceChange(number, 0)]));
  const ones = Array.from({ length: CHANGES }, (_, at) => sync([sliceChange(at * 7, 1)]));
  const row = (name, all) => [
    `${services.toLocaleString('en')}, ${variant}, ${name}`,
    lines(all[0].input).toLocaleString('en'),
    ...['wall', 'cpu', 'own'].map((what) => median(all.map((one) => one[what])).toFixed(3)),
  ];
  return [row('all', [full]), row('one endpoint', ones)];
}

const asked = process.argv.slice(2).map(Number);
const table = [['Services, tools, sync', 'lines', 'wall s', 'CPU s', "agent's CPU s"]];
try {
  for (const services of asked.length > 0 ? asked : [1_000, 5_000, 10_000]) {
    for (const variant of ['legacy', 'nft']) {
      table.push(...measure(variant, services));
      spawnSync('nft', ['flush', 'ruleset']);
      spawnSync('iptables-legacy-restore', { input: NO_RULES, env });
    }
  }
} finally {
  rmSync(folder, { recursive: true });
}
for (const cells of table) console.log(`| ${cells.join(' | ')} |`);
