// SPDX-License-Identifier: Apache-2.0
// `fairlead probe` where everything works, where something is forbidden or missing, and when it is killed.
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { FEATURE_NAMES, type FeatureName } from '../../../../src/probe/features.ts';
import type { ProbeReport } from '../../../../src/probe/report.ts';
import { findCgroup2, listProcesses, removeCgroup } from '../../../../src/sys/cgroup.ts';
import { run, start } from '../../../../src/sys/exec.ts';
import { compiledPath } from '../../../../tools/lab/sandbox.ts';
import { mapIteratorRefusal } from '../../../support/programs/map-iterators.ts';
import { forbidBpf } from '../../../support/seccomp/forbid-bpf.ts';
import { until } from '../../../support/until.ts';

/** Probes make their cgroups below it. */
const cgroup = join(findCgroup2() ?? '', `fl-probe-${process.pid}`);

beforeAll(async () => {
  mkdirSync(cgroup);
});
afterAll(() => {
  removeCgroup(cgroup);
});

/** All attempts, on a machine with much other work. */
const PROBE_MS = 240_000;
const ARGV = [
  process.execPath,
  compiledPath('main.js'),
  'probe',
  '--cgroup-root',
  cgroup,
  '--timeout',
  '60s',
];

async function probe(wrapper: readonly string[] = [], flags: readonly string[] = []) {
  const [program = '', ...args] = [...wrapper, ...ARGV, '-o', 'json', ...flags];
  const { code, stdout, stderr } = await run(program, args, { timeoutMs: PROBE_MS });
  const report: ProbeReport = JSON.parse(stdout === '' ? '{"items": []}' : stdout);
  const texts = new Map(
    report.items.map(({ feature, answer, reason }) => [feature, `${answer}: ${reason}`]),
  );
  const lacking = report.items.filter(({ answer }) => answer !== 'yes');
  return { ...report, code, stderr, texts, lacking };
}

/** By the policy of this kernel, or because it is built without; nothing else changes. */
const REFUSED_HERE = [
  ...(mapIteratorRefusal() === undefined ? [] : ['map iterators']),
  ...(existsSync('/sys/module/nft_flow_offload') ? [] : ['flowtable']),
];

const cgroupsLeft = (): readonly string[] =>
  readdirSync(cgroup).filter((name) => name.startsWith('fairlead-probe-'));

describe('where everything works', () => {
  test('each feature has an answer, nothing is left, and nothing of this namespace is changed', async () => {
    const facts = async () => [
      (await run('ip', ['-o', 'link'])).stdout,
      (await run('iptables-save', [])).stdout.replace(/^#.*|\[\d+:\d+\]$/gm, ''),
      (await run('sysctl', ['net.ipv4.conf.lo.route_localnet'])).stdout,
    ];
    const before = await facts();
    const { code, lacking, texts, engine } = await probe();
    expect(lacking.filter(({ feature }) => !REFUSED_HERE.includes(feature))).toEqual([]);
    expect([...texts.keys()]).toEqual(FEATURE_NAMES);
    expect(texts.get('socket programs')).toMatch(/^yes: 11 programs, \d+ instructions verified$/);
    expect(engine).toMatchObject({ ok: true, sockets: 'bpf', packets: 'bpf', why: [] });
    expect(code).toBe(0);
    expect(cgroupsLeft()).toEqual([]);
    expect(await facts()).toEqual(before);
  });

  test('as a table: what is there, and what a start does with it', async () => {
    const [program = '', ...args] = [...ARGV, '--engine', 'iptables'];
    const { stdout } = await run(program, args, { timeoutMs: PROBE_MS });
    expect(stdout).toMatch(/^FEATURE +ANSWER +REASON +CONSEQUENCE +REMEDY$/m);
    expect(stdout).toMatch(/^tcx +yes +- +- +-$/m);
    expect(stdout).toMatch(/^--engine iptables: +sockets and packets by iptables$/m);
  });
});

describe('of sockets of the agent', () => {
  const ASKED = ['--engine', 'userspace'];

  test('what they use is tried, and nothing else is looked at', async () => {
    const { code, texts, engine } = await probe(['env', 'PATH=/nowhere'], ASKED);
    expect([...texts]).toEqual([
      ['relay thread', 'yes: '],
      ['loopback addresses', 'yes: '],
      ['IPv6', 'yes: '],
    ]);
    expect(engine).toMatchObject({ ok: true, ways: { addresses: 'on the loopback device' } });
    expect(code).toBe(0);
  });

  test('without any privilege every feature has an answer, too', async () => {
    const drop = ['setpriv', '--bounding-set', '-all', '--inh-caps', '-all'];
    const { code, texts, engine } = await probe(drop, ASKED);
    expect([...texts]).toEqual([
      ['relay thread', 'yes: '],
      ['loopback addresses', 'no: this process does not have CAP_NET_ADMIN'],
      ['IPv6', 'yes: '],
    ]);
    expect(engine).toMatchObject({ ok: true, ways: { addresses: 'ports of 127.0.0.1' } });
    expect(code).toBe(3);
    expect(cgroupsLeft()).toEqual([]);
  });
});

describe('where BPF is forbidden', () => {
  const BPF_ALONE: readonly FeatureName[] = ['bpf()', 'connect4', 'tcx', 'packet programs'];

  test.each(['EPERM', 'ENOSYS'] as const)(
    'by a seccomp filter that answers %s: no, and Services are served by rules',
    async (errno) => {
      const { code, texts, engine } = await probe(forbidBpf(errno));
      expect(texts.get('CAP_BPF')).toBe('yes: ');
      const reason = `no: a seccomp filter of this process answers bpf(2) with ${errno}`;
      for (const feature of BPF_ALONE) {
        expect(texts.get(feature), feature).toContain(reason);
      }
      expect(texts.get('iptables-nft')).toBe('yes: ');
      expect(engine).toMatchObject({ ok: true, sockets: 'nftables', packets: 'nftables' });
      expect(code).toBe(3);
    },
  );

  test('by missing capabilities: no; and what needs a network namespace could not be told', async () => {
    const drop = ['setpriv', '--bounding-set', '-sys_admin,-bpf,-perfmon'];
    const { code, texts, engine } = await probe(drop, ['--engine', 'bpf']);
    expect(texts.get('CAP_BPF')).toBe('no: this process does not have CAP_BPF');
    expect(texts.get('bpf()')).toBe('no: this process has neither CAP_BPF nor CAP_SYS_ADMIN');
    const reason = 'could not tell: a new network namespace needs CAP_SYS_ADMIN';
    expect(texts.get('iptables-nft')).toBe(reason);
    expect(texts.get('cgroup links')).toBe(reason);
    expect(engine).toMatchObject({ ok: false, code: 'NO_PRIVILEGE' });
    expect(code).toBe(5);
  });

  test('CAP_BPF and CAP_PERFMON come with CAP_SYS_ADMIN', async () => {
    const { texts } = await probe(['setpriv', '--bounding-set', '-bpf,-perfmon']);
    expect(texts.get('CAP_BPF')).toBe('yes: by CAP_SYS_ADMIN');
    expect(texts.get('bpf()')).toBe('yes: ');
  });
});

test('without a cgroup v2 hierarchy the answer is no, with what to do; packets are not affected', async () => {
  const script = `umount -l "${findCgroup2()}" && exec "$@"`;
  const unmounted = ['unshare', '--mount', 'sh', '-c', script, 'sh'];
  const [program = '', ...args] = [...unmounted, ...ARGV.slice(0, 3), '-o', 'json'];
  const { stdout, code } = await run(program, args, { timeoutMs: PROBE_MS });
  const { items, engine }: ProbeReport = JSON.parse(stdout);
  const answers = new Map(items.map(({ feature, ...rest }) => [feature, rest]));
  expect(answers.get('cgroup v2')).toMatchObject({
    answer: 'no',
    reason: expect.stringMatching(/cgroup v2 hierarchy is mounted.*mount -t cgroup2/),
  });
  expect(answers.get('connect4')).toMatchObject({
    answer: 'could not tell',
    reason: 'no cgroup v2 hierarchy is mounted, writable',
  });
  expect(answers.get('packet programs')?.answer).toBe('yes');
  expect(engine).toMatchObject({ ok: true, sockets: 'nftables', packets: 'nftables' });
  expect(code).toBe(3);
});

test('without iptables in PATH the answer is no, and why', async () => {
  const { texts, engine } = await probe(['env', 'PATH=/nowhere'], ['--engine', 'iptables']);
  expect(texts.get('iptables-nft')).toMatch(/^no: iptables-nft-restore was not found: install/);
  expect(texts.get('xt_recent')).toBe('could not tell: no iptables works here, see iptables-nft');
  expect(engine).toMatchObject({ ok: false, code: 'NO_IPTABLES' });
});

test('what probes that were killed have left is removed, unless it is in use or new', async () => {
  const [gone, used, fresh] = [4_194_305, 4_194_306, 4_194_307].map(
    (pid) => `fairlead-probe-${pid}`,
  );
  const running = `fairlead-probe-${process.pid}`;
  const all = [gone, used, fresh, running].map((name) => join(cgroup, name ?? ''));
  mkdirSync(join(cgroup, `${used}/below`), { recursive: true });
  for (const path of all) mkdirSync(path, { recursive: true });
  const anHourAgo = Date.now() / 1000 - 3600;
  for (const path of all) if (!path.endsWith(`${fresh}`)) utimesSync(path, anHourAgo, anHourAgo);
  await probe();
  const kept = [used, fresh, running];
  expect([...cgroupsLeft()].sort()).toEqual(kept.sort());
  rmdirSync(join(cgroup, `${used}/below`));
  for (const name of kept) rmdirSync(join(cgroup, `${name}`));
});

describe('when it is killed', () => {
  /** Not a program that it has started. */
  const isInside = (pid: number): boolean =>
    readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('--inside');

  /** With the process that tries, once that is in the cgroup. */
  async function startProbe() {
    const [program = '', ...args] = ARGV;
    const lines: string[] = [];
    const child = start(program, args, { onStdoutLine: (line) => lines.push(line) });
    const inside = await until(
      () => listProcesses(cgroup).find(isInside),
      'the process that tries',
    );
    return { child, inside, lines };
  }

  const untilNothingIsLeft = (): Promise<unknown> =>
    until(() => cgroupsLeft().length === 0 && listProcesses(cgroup).length === 0, 'no cgroup');

  test('from outside, its cgroup is removed and no process is left', async () => {
    const { child } = await startProbe();
    child.kill('SIGKILL');
    await child.exited;
    await untilNothingIsLeft();
  });

  test('from outside, while a program that it has started still runs: that ends, too', async () => {
    const { child } = await startProbe();
    const helper = start('sleep', ['600'], {});
    onTestFinished(() => void helper.kill('SIGKILL'));
    const [left = ''] = cgroupsLeft();
    writeFileSync(join(cgroup, left, 'cgroup.procs'), String(helper.pid));
    child.kill('SIGKILL');
    await child.exited;
    await untilNothingIsLeft();
  });

  test('inside, one feature could not be told, and the others are tried by the next process', async () => {
    // Once it has tried everything it ends; on a busy machine it may be seen only then.
    const doubts = await until(async () => {
      const { child, inside, lines } = await startProbe();
      process.kill(Number(inside), 'SIGKILL');
      await child.exited;
      expect(cgroupsLeft()).toEqual([]);
      const found = lines.filter((line) => line.includes('could not tell'));
      return found.length === 0 ? undefined : found;
    }, 'one that is killed while it tries');
    expect(doubts).toHaveLength(1);
    expect(doubts[0]).toContain('the attempt ended with 137');
  });
});
