// SPDX-License-Identifier: Apache-2.0
// Every way a program can end, blocking and not.

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { endTied, type RunResult, run, runSync, start, stop } from '../../../src/sys/exec.ts';
import { until } from '../../support/until.ts';

const sh = (script: string): readonly [string, readonly string[]] => ['sh', ['-c', script]];

const ENDS: readonly {
  readonly name: string;
  readonly call: readonly [program: string, args: readonly string[]];
  readonly options?: { readonly stdin?: string; readonly timeoutMs?: number };
  readonly result: Partial<RunResult> | { readonly stderr: unknown };
}[] = [
  {
    name: 'its output, as it is',
    call: sh('echo out; echo err >&2'),
    result: { stdout: 'out\n', stderr: 'err\n', code: 0 },
  },
  { name: 'its exit code', call: sh('exit 7'), result: { code: 7 } },
  { name: 'a signal', call: sh('kill -TERM $$'), result: { code: 143 } },
  { name: 'its input', call: ['cat', []], options: { stdin: 'a\nb' }, result: { stdout: 'a\nb' } },
  {
    name: 'input that nobody reads',
    call: ['true', []],
    options: { stdin: 'x'.repeat(1_000_000) },
    result: { code: 0, stderr: '' },
  },
  { name: 'no input: the end of it', call: ['cat', []], result: { stdout: '', code: 0 } },
  {
    name: 'a timeout, although it ignores SIGTERM',
    call: sh('trap "" TERM; echo begun; while :; do sleep 0.1; done'),
    // Long enough for it to begin on a machine with other work.
    options: { timeoutMs: 2_000 },
    result: { stdout: 'begun\n', code: 124 },
  },
  {
    name: 'a program that does not exist',
    call: ['no-such-program', []],
    result: { code: 127, stderr: expect.stringMatching(/no-such-program/) },
  },
];

describe.each([
  { name: 'run', run },
  { name: 'runSync', run: async (...args: Parameters<typeof runSync>) => runSync(...args) },
])('$name', ({ run: call }) => {
  test.each(ENDS)('$name', async ({ call: [program, args], options, result }) => {
    expect(await call(program, args, options)).toMatchObject(result);
  });

  test('the program leads a process group of its own, which Ctrl-C in a terminal does not reach', async () => {
    const { stdout } = await call('sh', ['-c', 'echo $$; ps -o pgid= -p $$']);
    const [pid, group] = stdout.split('\n').map((line) => line.trim());
    expect(group).toBe(pid);
  });
});

test('runSync: Ctrl-C that comes before the program has a process group of its own does not keep it from running', () => {
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-'));
  const { PATH: path } = process.env;
  try {
    const script = `[ -e ${folder}/met ] || { touch ${folder}/met; kill -INT $$; }; PATH=${path}; exec setsid "$@"`;
    writeFileSync(join(folder, 'setsid'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    process.env['PATH'] = `${folder}:${path}`;
    expect(runSync('echo', ['ran'])).toMatchObject({ stdout: 'ran\n', code: 0 });
    expect(existsSync(join(folder, 'met'))).toBe(true);
  } finally {
    process.env['PATH'] = path;
    rmSync(folder, { recursive: true });
  }
});

test('a started program: lines in both directions, and exited after the last of them', async () => {
  const lines: string[] = [];
  const child = start(...sh('while read -r line; do echo "<$line>"; done; echo end >&2; exit 3'), {
    onStdoutLine: (line) => {
      lines.push(line);
      if (line === '<two>') child.kill('SIGTERM');
    },
  });
  expect(child.writeLine('one')).toBe(true);
  expect(child.hasExited()).toBe(false);
  child.writeLine('two');
  expect(await child.exited).toBe(143);
  expect(lines).toEqual(['<one>', '<two>']);
  expect(child.hasExited()).toBe(true);
  child.kill('SIGKILL');
});

test('a line that does not fit into the pipe at once is no failure', async () => {
  const counts: string[] = [];
  const child = start(...sh('head -n 1 | wc -c'), { onStdoutLine: (line) => counts.push(line) });
  expect(child.writeLine('x'.repeat(1_000_000))).toBe(true);
  expect(await child.exited).toBe(0);
  expect(counts.map(Number)).toEqual([1_000_001]);
});

test('stop escalates from SIGTERM to SIGKILL', async () => {
  let ready: () => void = () => undefined;
  const isReady = new Promise<void>((resolve) => {
    ready = resolve;
  });
  const stubborn = start(...sh('trap "" TERM; echo ready; while :; do sleep 0.05; done'), {
    onStdoutLine: () => ready(),
  });
  await isReady;
  expect(await stop(stubborn, 100)).toBe(137);
});

test('a program that cannot be started throws', () => {
  expect(() => start('no-such-program', [])).toThrow(/no-such-program.*installed/);
});

test('programs that end with this process have ended when endTied() returns', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'exec-'));
  const file = join(folder, 'pid');
  const tied = run(...sh(`echo $$ >${file}; exec sleep 60`), { endsWithUs: true });
  const other = run(...sh('sleep 0.5; echo other'));
  // Created before it is written.
  const pid = await until(() => readFileSync(file, 'utf8').trim() || undefined, 'its start');
  endTied();
  // Nobody has reaped it yet.
  expect(readFileSync(`/proc/${pid}/status`, 'utf8')).toMatch(/^State:\s+Z/m);
  expect(await tied).toMatchObject({ code: 137 });
  expect(await other).toMatchObject({ code: 0, stdout: 'other\n' });
  rmSync(folder, { recursive: true });
});
