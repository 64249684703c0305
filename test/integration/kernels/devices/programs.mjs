// SPDX-License-Identifier: Apache-2.0
// The programs of the checks: servers and clients of the test fixture, and the agent.
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { inside } from './network.mjs';

/** With `client` and `server`. */
const [, , PROGRAMS = ''] = process.argv;
const WORK = mkdtempSync(join(tmpdir(), 'fairlead-devices-'));
const BPFFS = join(WORK, 'bpf');
const RUN_DIR = join(WORK, 'run');
const [, HIERARCHY = ''] = /^\S+ (\S+) cgroup2 /m.exec(readFileSync('/proc/mounts', 'utf8')) ?? [];
const CGROUP = join(HIERARCHY, 'fairlead-devices');
export const MANIFESTS = join(WORK, 'manifests');
export const OWN = ['--bpf-root', join(BPFFS, 'fairlead'), '--run-dir', RUN_DIR];
export const PATIENCE_MS = 120_000;

export function prepare() {
  for (const path of [BPFFS, MANIFESTS, CGROUP]) mkdirSync(path, { recursive: true });
  const { status, stderr } = spawnSync('mount', ['-t', 'bpf', 'bpf', BPFFS], { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
}

export function removeAll() {
  spawnSync('umount', [BPFFS]);
  rmSync(WORK, { recursive: true, force: true });
  rmdirSync(CGROUP);
}

/** @param {string} line */
export const say = (line) => void process.stdout.write(`${line}\n`);

/** @param {string} pod @param {readonly string[]} addresses @returns {Promise<() => void>} what ends it */
export function serve(pod, addresses) {
  const [program, args] = inside(pod, [join(PROGRAMS, 'server'), ...addresses, '--', '8080']);
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  return new Promise((resolve) =>
    child.stdout.once('data', () => resolve(() => void child.kill())),
  );
}

/** 20 exchanges of a client outside: `10.1.1.5 10.1.2.5`. @param {string} words */
export function burst(words) {
  const input = `1 burst ${words}\n`;
  const [program, args] = inside('out', [join(PROGRAMS, 'client')]);
  const { stdout } = spawnSync(program, args, { input, encoding: 'utf8', timeout: PATIENCE_MS });
  const outcomes = /^1 \d+ (.*)$/m.exec(stdout)?.[1]?.split(' ') ?? ['nothing'];
  const names = outcomes.map((one) => one.replace(/^\[?([^\]]*?)\]?:8080>.*/, '$1'));
  return [...new Set(names)].sort().join(' ');
}

/** Flows expire within PATIENCE_MS: those of a port that the kernel has chosen twice, by nf_conntrack's times, after 120 s. */
const UDP_TIMES = ['--conntrack-udp-timeout', '10s', '--conntrack-udp-timeout-stream', '10s'];
const MAIN = [process.execPath, 'dist/main.js'];

/**
 * Resolves once it is ready.
 * @returns {Promise<{child: import('node:child_process').ChildProcess, log: readonly string[]}>}
 */
export function startAgent() {
  const flags = [
    '--hostname-override',
    'n1',
    '--cgroup-root',
    CGROUP,
    '--devices',
    'auto',
    ...UDP_TIMES,
  ];
  const [program = '', ...args] = [...MAIN, 'run', '--manifests', MANIFESTS, ...flags, ...OWN];
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  return new Promise((resolve, reject) => {
    /** @type {string[]} */
    const log = [];
    createInterface({ input: child.stderr }).on('line', (line) => {
      log.push(line);
      if (/"level":"(warn|error)"/.test(line)) say(`# ${line}`);
      if (line.includes('"msg":"ready"')) resolve({ child, log });
    });
    child.once('exit', (code) => reject(new Error(`the agent ended (${code}): ${log.slice(-5)}`)));
  });
}

/** @param {readonly string[]} words @param {number} timeout */
export function fairlead(words, timeout = PATIENCE_MS) {
  const [program = '', ...args] = [...MAIN, ...words];
  const result = spawnSync(program, args, { encoding: 'utf8', timeout });
  if (result.stdout === '') say(`# ${words[0]}: ${result.signal ?? ''} ${result.stderr}`);
  return result;
}

/** @typedef {{name: string, isAttached: boolean, role: string, reason: string, ingress: string[], egress: string[]}} Device */

/** @returns {Promise<Map<string, Device>>} */
export async function devices() {
  const { devices: all } = await agentStatus();
  return new Map(all.map((device) => [device.name, device]));
}

/** @typedef {{devices: Device[], dataplanes: string[], refused: unknown[], fallback?: {what: string, reason: string}}} Status */

/** Not by `fairlead status`, which gives up where an emulated machine has not begun yet. @returns {Promise<Status>} */
export function agentStatus() {
  return new Promise((resolve, reject) => {
    const options = { socketPath: `${RUN_DIR}/agent.sock`, path: '/v1/status', agent: false };
    const request = http.get(options, (response) => {
      /** @type {string[]} */
      const parts = [];
      response.setEncoding('utf8').on('data', (part) => parts.push(part));
      response.on('end', () => {
        resolve(JSON.parse(parts.join('')));
      });
    });
    request.setTimeout(PATIENCE_MS, () => request.destroy(new Error('status: no answer')));
    request.on('error', reject);
  });
}
