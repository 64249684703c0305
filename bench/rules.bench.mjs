// SPDX-License-Identifier: Apache-2.0
// What iptables-restore takes, by itself, for the rules of 1,000, 5,000 and 10,000 Services with 10 endpoints each: lines, wall and
// CPU time of the first sync and of one changed endpoint, with iptables-legacy and iptables-nft, for the input of fairlead and, in
// turn, for that of kube-proxy; and the agent's own CPU time to make its input. Needs root and a network namespace of its own:
// `npm run bench:rules [-- SERVICES...]`.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RESTORE_ARGUMENTS } from '../build/js/engines/iptables/kernel/tools.js';
import { CHAINS_AT_ONCE } from '../build/js/engines/iptables/kernel/variant.js';
import { createRenderer } from '../build/js/engines/iptables/rows/render.js';
import { applyDiffs } from '../build/js/engines/iptables/state/diff/apply.js';
import { diffTables } from '../build/js/engines/iptables/state/diff/diff.js';
import { restoreInput } from '../build/js/engines/iptables/state/diff/restore-input.js';
import { rulesetPrinter } from '../build/js/engines/iptables/state/wanted.js';
import { createPlanner } from '../build/js/plan/planner.js';
import { kubeProxyInput } from './kube-proxy-input.mjs';
import { SETTINGS, serviceChange, sliceChange } from './plan-objects.mjs';

const CHANGES = 7;
/** A restore that takes longer is given up. */
const LIMIT_SECONDS = 120;
/** Of timeout(1). */
const GIVEN_UP = 124;
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

/**
 * time(1) of bash is the last line that it prints. Once the limit is over it has a few seconds to be killed in the kernel.
 * @param {string} variant @param {string} input
 */
function restore(variant, input) {
  const program = `timeout ${LIMIT_SECONDS} iptables-${variant}-restore ${RESTORE_ARGUMENTS.join(' ')}`;
  const command = `TIMEFORMAT='%R %U %S'; time ${program}`;
  const { status, stderr } = spawnSync('bash', ['-c', command], { input, env, encoding: 'utf8' });
  if (status !== 0 && status !== GIVEN_UP) {
    throw new Error(`iptables-${variant}-restore: ${stderr}`);
  }
  const [wall, user, system] = stderr.trim().split('\n').at(-1).split(' ').map(Number);
  return { lines: lines(input), wall, cpu: user + system, isGivenUp: status === GIVEN_UP };
}

function removeRules() {
  spawnSync('nft', ['flush', 'ruleset']);
  spawnSync('iptables-legacy-restore', { input: NO_RULES, env });
}

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
const lines = (input) => (input.match(/\n/g) ?? []).length;

/** @param {string} name @param {readonly { isGivenUp: boolean }[]} all */
function row(name, all) {
  const isGivenUp = all.some((one) => one.isGivenUp);
  const cells = ['wall', 'cpu', 'own'].map((what) => {
    if (all[0][what] === undefined) return '–';
    return `${isGivenUp ? 'over ' : ''}${median(all.map((one) => one[what])).toFixed(3)}`;
  });
  return [name, all[0].lines.toLocaleString('en'), ...cells];
}

/** The steps of a sync, as the agent takes them. @param {string} variant */
function agent(variant) {
  const planner = createPlanner(SETTINGS);
  const renderer = createRenderer(RENDERING);
  const print = rulesetPrinter('IPv4');
  const held = new Map();
  let written;
  return (changes) => {
    planner.apply(changes);
    const startedAt = ownSeconds();
    const wanted = print(renderer.render(planner.current()).find((one) => one.family === 'IPv4'));
    const diffs = diffTables(held, wanted, written);
    const input = restoreInput(diffs, CHAINS_AT_ONCE[variant]);
    applyDiffs(held, diffs);
    written = wanted;
    return { wanted, diffs, input, own: ownSeconds() - startedAt };
  };
}

/** @param {string} variant @param {number} services */
function measure(variant, services) {
  const sync = agent(variant);
  const numbers = Array.from({ length: services }, (_, number) => number);
  const first = sync(numbers.flatMap((number) => [serviceChange(number), sliceChange(number, 0)]));
  const theirFull = restore(variant, kubeProxyInput(first.wanted));
  removeRules();
  const full = { ...restore(variant, first.input), own: first.own };
  const ones = [];
  const theirOnes = [];
  for (let at = 0; at < CHANGES; at += 1) {
    const { wanted, diffs, input, own } = sync([sliceChange(at * 7, 1)]);
    const changed = new Set(diffs.flatMap(({ filled }) => filled.map(({ chain }) => chain)));
    // First kube-proxy's, which removes no chain in a partial sync: what fairlead does after it is all of its change.
    theirOnes.push(
      restore(
        variant,
        kubeProxyInput(wanted, (chain) => changed.has(chain)),
      ),
    );
    ones.push({ ...restore(variant, input), own });
  }
  const name = `${services.toLocaleString('en')}, ${variant}`;
  return [
    row(`${name}, all`, [full]),
    row(`${name}, all, kube-proxy's input`, [theirFull]),
    row(`${name}, one endpoint`, ones),
    row(`${name}, one endpoint, kube-proxy's input`, theirOnes),
  ];
}

const asked = process.argv.slice(2).map(Number);
const table = [['Services, tools, sync', 'lines', 'wall s', 'CPU s', "agent's CPU s"]];
try {
  for (const services of asked.length > 0 ? asked : [1_000, 5_000, 10_000]) {
    for (const variant of ['legacy', 'nft']) {
      table.push(...measure(variant, services));
      removeRules();
    }
  }
} finally {
  rmSync(folder, { recursive: true });
}
for (const cells of table) console.log(`| ${cells.join(' | ')} |`);
