// SPDX-License-Identifier: Apache-2.0
// `fairlead demo` as a user runs it: every phase succeeds, and nothing is left however it ends.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { run, start } from '../../../../src/sys/exec.ts';
import { packageRoot } from '../../../../src/sys/package.ts';
import type { DemoReport } from '../../../../tools/demo/demo.ts';
import { ownNamespaces } from '../../../../tools/lab/ownership.ts';
import { toolPath } from '../../../../tools/lab/sandbox.ts';
import { NOBODY, readableMain } from '../../../support/programs/nobody.ts';
import { until } from '../../../support/until.ts';

interface Demo {
  readonly pid: number;
  readonly stdout: string[];
  readonly stderr: string[];
  readonly exited: Promise<number>;
}

function startDemo(
  args: readonly string[],
  onLine: (line: string, pid: number) => void = () => undefined,
  wrapper: readonly string[] = [],
  program: readonly string[] = [process.execPath, toolPath('main.js'), 'demo'],
): Demo {
  const stdout: string[] = [];
  const stderr: string[] = [];
  const argv = [...wrapper, ...program, ...args];
  const child = start(argv[0]!, argv.slice(1), {
    onStdoutLine: (line) => {
      stdout.push(line);
      onLine(line, child.pid);
    },
    onStderrLine: (line) => stderr.push(line),
  });
  return { pid: child.pid, stdout, stderr, exited: child.exited };
}

/** That of another run may go at any moment. */
function recordOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return '';
  }
}

/** Other runs may be in progress on this machine: the owner's record identifies leftovers of this one. */
function leftBy({ pid, stdout, stderr }: Demo): string[] {
  const folder = '/run/fairlead-demo';
  const records = existsSync(folder) ? readdirSync(folder) : [];
  const own = records.filter((name) =>
    recordOf(`${folder}/${name}/owner.json`).includes(`"pid":${pid},`),
  );
  const prefix = /namespaces (fl\w{6})-/.exec([...stdout, ...stderr].join('\n'))?.[1];
  return [...own, ...(prefix === undefined ? [] : ownNamespaces(prefix))];
}

test('every phase is as expected, nothing is left, and stdout holds only the report', async () => {
  const demo = startDemo(['--json'], undefined, [], [join(packageRoot(), 'scripts/demo')]);
  expect(await demo.exited).toBe(0);
  const talk = demo.stderr.join('\n');
  expect(talk).not.toContain('\x1b');
  expect(talk).toContain('all as expected');
  const report: DemoReport = JSON.parse(demo.stdout.join('\n'));
  expect(report).toMatchObject({ kind: 'DemoReport', isOk: true, failures: 0 });
  expect(report.connections).toBeGreaterThan(10_000);
  expect(leftBy(demo)).toEqual([]);
});

/** Interrupted in different phases. */
test.each([
  { signal: 'SIGINT', code: 130, when: 'nsenter' },
  { signal: 'SIGINT', code: 130, when: 'even:' },
  { signal: 'SIGTERM', code: 143, when: '5 → 8' },
  { signal: 'SIGINT', code: 130, when: 'no agent' },
] as const)(
  '$signal at $when ends with $code and leaves nothing',
  async ({ signal, code, when }) => {
    let isReached = false;
    const demo = startDemo([], (line, pid) => {
      if (isReached || !line.includes(when)) return;
      isReached = true;
      // Signals the whole process group, as a terminal does.
      process.kill(-pid, signal);
    });
    expect(await demo.exited).toBe(code);
    expect(isReached).toBe(true);
    expect(leftBy(demo)).toEqual([]);
  },
);

/** `demo --remove` removes what every run on this machine keeps: one at a time. */
async function alone(): Promise<() => Promise<unknown>> {
  const lines: string[] = [];
  const script = ['/run/fairlead-demo-kept.lock', '-c', 'echo alone; read line'];
  const lock = start('flock', script, { onStdoutLine: (line) => lines.push(line) });
  await until(() => lines.length > 0, { what: 'the turn of this run', timeoutMs: 240_000 });
  return () => {
    lock.writeLine('');
    return lock.exited;
  };
}

test('--keep leaves the demo running: the suggested commands work, and --remove removes it', async () => {
  const release = await alone();
  onTestFinished(async () => void (await release()));
  const demo = startDemo(['--keep']);
  await until(() => demo.stdout.some((line) => line.includes('demo -- --remove')), {
    what: 'the stage to stay',
    timeoutMs: 180_000,
  });
  const suggested = demo.stdout.filter((line) => / status | services |\/dev\/tcp/.test(line));
  expect(suggested).toHaveLength(3);
  const [status, services, answer] = await Promise.all(
    suggested.map((line) => run('bash', ['-c', line.trim()])),
  );
  expect(status).toMatchObject({ code: 0, stdout: expect.stringMatching(/in sync/) });
  expect(services?.stdout).toContain('192.0.2.10:80');
  expect(JSON.parse(answer?.stdout ?? '')).toMatchObject({
    backend: expect.stringMatching(/^web-/),
  });
  const remove = startDemo(['--remove']);
  expect(await remove.exited).toBe(0);
  expect(await demo.exited).toBe(0);
  expect(leftBy(demo)).toEqual([]);
  const again = startDemo(['--remove']);
  expect(await again.exited).toBe(4);
});

const openMain = readableMain('build/tools/main.js');

test('without root it says what is missing and exits with 5 before it changes anything', async () => {
  const demo = startDemo([], undefined, NOBODY, [process.execPath, openMain, 'demo']);
  expect(await demo.exited).toBe(5);
  expect(demo.stdout.join('\n')).toMatch(/MISSING {2}root: /);
  expect(demo.stderr.join('\n')).toContain('cannot run without: root');
  expect(leftBy(demo)).toEqual([]);
});
