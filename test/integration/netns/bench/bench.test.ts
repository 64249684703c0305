// SPDX-License-Identifier: Apache-2.0
// `fairlead bench` as users run it, with the fewest repetitions: it measures, skips what it cannot, and leaves nothing.
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { type Child, run, start, stop } from '../../../../src/sys/exec.ts';
import { listNamespaces } from '../../../../src/sys/netns.ts';
import { parseReport } from '../../../../tools/bench/report/read.ts';
import type { Samples } from '../../../../tools/bench/report/types.ts';
import { toolPath } from '../../../../tools/lab/sandbox.ts';
import { NOBODY, readableMain } from '../../../support/programs/nobody.ts';
import { until } from '../../../support/until.ts';

const PROGRAM = toolPath('main.js');
const RECORDS = '/run/fairlead-demo';
const SHORT = ['--services', '20', '--rounds', '1', '--turns', '1', '--quick'];
const LONG_MS = 900_000;

const running: Child[] = [];
const directories: string[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((child) => stop(child)));
  for (const path of directories.splice(0)) rmSync(path, { recursive: true, force: true });
});

function newDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'fairlead-bench-'));
  directories.push(directory);
  return directory;
}

/** `fl…`, which all that a run makes begins with. */
function prefixOf(pid: number): string | undefined {
  if (!existsSync(RECORDS)) return undefined;
  return readdirSync(RECORDS).find((name) => {
    const record = join(RECORDS, name, 'owner.json');
    return existsSync(record) && JSON.parse(readFileSync(record, 'utf8')).pid === pid;
  });
}

const medians = (samples: Samples, column: 'none' | 'fairlead-bpf' | 'fairlead-iptables') =>
  Object.entries(samples)
    .filter(([, row]) => (row[column] ?? []).length > 0)
    .map(([metric]) => metric);

const TRAFFIC = [
  ...['connections', 'latencyP50', 'latencyP99', 'latencyP999', 'requestCpu', 'bulk', 'udp'],
  ...['nodePortConnections', 'nodePortUdp'],
];
const PROGRAMMING = ['start', 'startCpu', 'change', 'changeCpu', 'churn', 'churnCpu'];

test(
  'measures every row of every column, and skips a kube-proxy that is not there',
  async () => {
    const directory = newDirectory();
    const columns = 'none,fairlead-bpf,fairlead-iptables,kube-proxy-iptables';
    const where = ['--columns', columns, '--kube-proxy', '/nowhere/kube-proxy'];
    const args = ['bench', ...SHORT, ...where, '--output-dir', directory];
    const { code, stdout, stderr } = await run(PROGRAM, args, { timeoutMs: LONG_MS });
    expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
    const skipped = 'SKIPPED: kube-proxy iptables: no /nowhere/kube-proxy';
    expect(stderr).toContain(skipped);
    expect(stdout).toContain(skipped);
    const file = join(directory, 'bench.json');
    const report = parseReport(readFileSync(file, 'utf8'), file);
    const [size] = report.sizes;
    const memory = ['memory', 'memoryPeak'];
    expect(medians(size!.samples, 'none')).toEqual(TRAFFIC);
    for (const column of ['fairlead-bpf', 'fairlead-iptables'] as const) {
      const measured = medians(size!.samples, column);
      expect(new Set(measured)).toEqual(new Set([...TRAFFIC, ...PROGRAMMING, ...memory]));
      expect(new Set(medians(report.roll!.samples, column))).toEqual(
        new Set(['rollCpu', 'rollLast', ...memory]),
      );
      const missing = Object.values(size!.samples).filter((row) => row[column]?.includes(null));
      expect(missing).toEqual([]);
    }
    const again = await run(PROGRAM, ['bench', '--report', file]);
    expect(again.stdout).toBe(stdout);
    for (const format of ['svg', 'html'] as const) {
      const rendered = await run(PROGRAM, ['bench', '--report', file, '-o', format]);
      expect(rendered.stdout).toBe(readFileSync(join(directory, `bench.${format}`), 'utf8'));
    }
  },
  LONG_MS,
);

test('Ctrl-C in the middle leaves no namespace, no process and no file', async () => {
  const args = ['bench', ...SHORT, '--columns', 'none,fairlead-bpf', '--no-roll'];
  const child = start(PROGRAM, args, {});
  running.push(child);
  // The agent is being started, or already runs: it has a folder for its pins.
  const prefix = await until(() => prefixOf(child.pid), { what: 'a record', timeoutMs: 60_000 });
  const pins = join(RECORDS, prefix, 'fairlead-bpf', 'bpf', 'node');
  await until(() => existsSync(pins), { what: 'an agent', timeoutMs: 60_000 });
  child.kill('SIGINT');
  expect(await child.exited).toBe(130);
  expect(listNamespaces().filter((name) => name.startsWith(prefix))).toEqual([]);
  expect(existsSync(join(RECORDS, prefix))).toBe(false);
});

const openMain = readableMain('build/tools/main.js');

test('without root: one line, exit code 5', async () => {
  const [program = '', ...argv] = [...NOBODY, process.execPath, openMain, 'bench'];
  const { code, stdout, stderr } = await run(program, argv);
  expect({ code, stdout }).toEqual({ code: 5, stdout: '' });
  expect(stderr).toBe(
    'fairlead: the benchmark makes network namespaces and cgroups of its own: run it as root\n',
  );
});

test('without the programs that it runs: one line that names them, exit code 5', async () => {
  const argv = ['-i', 'PATH=/nowhere', process.execPath, PROGRAM, 'bench'];
  const { code, stderr } = await run('env', argv);
  expect({ code, stderr }).toEqual({
    code: 5,
    stderr: 'fairlead: the benchmark runs ip, nsenter, setpriv: install iproute2 and util-linux\n',
  });
});

test.each([
  {
    name: 'no such file',
    args: ['--report', '/nowhere/x.json'],
    code: 4,
    said: /cannot read \/nowh/,
  },
  {
    name: 'another file',
    args: ['--report', '/etc/passwd'],
    code: 2,
    said: /no report of fairlead bench/,
  },
  {
    name: 'an unknown column',
    args: ['--columns', 'cilium'],
    code: 2,
    said: /cilium is none of none, fair/,
  },
  {
    name: 'no number',
    args: ['--services', '10,x'],
    code: 2,
    said: /x is not a number from 1 to 99,999/,
  },
])('$name: exit code $code', async ({ args, code, said }) => {
  const result = await run(PROGRAM, ['bench', ...args]);
  expect(result.code).toBe(code);
  expect(result.stderr).toMatch(said);
});
