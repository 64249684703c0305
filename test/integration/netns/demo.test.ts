// SPDX-License-Identifier: Apache-2.0
// `fairlead demo` as a user runs it: keeps what it promises, and leaves nothing however it ends.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { DemoReport } from '../../../src/demo/demo.ts';
import { ownNamespaces } from '../../../src/lab/ownership.ts';
import { compiledPath } from '../../../src/lab/place.ts';
import { runSync, start } from '../../../src/sys/exec.ts';

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
): Demo {
  const stdout: string[] = [];
  const stderr: string[] = [];
  const argv = [...wrapper, process.execPath, compiledPath('main.js'), 'demo', ...args];
  const child = start(argv[0]!, argv.slice(1), {
    onStdoutLine: (line) => {
      stdout.push(line);
      onLine(line, child.pid);
    },
    onStderrLine: (line) => stderr.push(line),
  });
  return { pid: child.pid, stdout, stderr, exited: child.exited };
}

/** Other runs may be under way on this machine: what is left of this one is told by its owner's record. */
function leftBy({ pid, stdout, stderr }: Demo): string[] {
  const folder = '/run/fairlead-demo';
  const records = existsSync(folder) ? readdirSync(folder) : [];
  const own = records.filter((name) => {
    const path = `${folder}/${name}/owner.json`;
    return existsSync(path) && readFileSync(path, 'utf8').includes(`"pid":${pid},`);
  });
  const prefix = /namespaces (fl\w{6})-/.exec([...stdout, ...stderr].join('\n'))?.[1];
  return [...own, ...(prefix === undefined ? [] : ownNamespaces(prefix))];
}

test('it keeps every promise within a minute and leaves nothing', async () => {
  const demo = startDemo(['--json']);
  expect(await demo.exited).toBe(0);
  const talk = demo.stderr.join('\n');
  expect(talk).not.toContain('\x1b');
  expect(talk).toContain('all as promised');
  const report: DemoReport = JSON.parse(demo.stdout.join('\n'));
  expect(report).toMatchObject({ kind: 'DemoReport', isOk: true, failures: 0 });
  expect(report.connections).toBeGreaterThan(10_000);
  expect(leftBy(demo)).toEqual([]);
}, 60_000);

/** Interrupted while it builds, measures, kills things. */
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
      // To the whole group, as a terminal does it.
      process.kill(-pid, signal);
    });
    expect(await demo.exited).toBe(code);
    expect(isReached).toBe(true);
    expect(leftBy(demo)).toEqual([]);
  },
);

const nobody = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'];
/** A checkout below /root is closed to everybody else: then there is nobody to try it as. */
const isOpen =
  runSync(nobody[0] ?? '', [...nobody.slice(1), 'test', '-r', compiledPath('main.js')]).code === 0;
if (!isOpen) {
  process.stderr.write(
    'skipped: only root can read this checkout, so nobody else can try the demo\n',
  );
}

test.skipIf(!isOpen)(
  'without root it says what is missing, and ends with 5 before it touches anything',
  async () => {
    const demo = startDemo([], undefined, nobody);
    expect(await demo.exited).toBe(5);
    expect(demo.stdout.join('\n')).toMatch(/MISSING {2}root: /);
    expect(demo.stderr.join('\n')).toContain('cannot run without: root');
    expect(leftBy(demo)).toEqual([]);
  },
);
