// SPDX-License-Identifier: Apache-2.0
// `fairlead demo` as a user runs it: keeps what it promises, and leaves nothing however it ends.
import { existsSync, readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { DemoReport } from '../../src/demo/demo.ts';
import { compiledPath } from '../../src/demo/place.ts';
import { run, start } from '../../src/sys/exec.ts';
import { listNamespaces } from '../../src/sys/netns.ts';
import { until } from '../support/until.ts';

const RECORDS = '/run/fairlead-demo';
const records = (): string[] => (existsSync(RECORDS) ? readdirSync(RECORDS) : []);

/** Namespaces and records of runs that are not those of others on this machine. */
function newSince(before: ReadonlySet<string>): string[] {
  const ours = listNamespaces().filter((name) => /^fl[0-9a-z]{6}-n1/.test(name));
  return [...ours, ...records()].filter((name) => !before.has(name));
}

const present = (): Set<string> => new Set([...listNamespaces(), ...records()]);

test('it keeps every promise within a minute and leaves nothing', async () => {
  const before = present();
  const args = [compiledPath('main.js'), 'demo', '--json'];
  const { code, stdout, stderr } = await run(process.execPath, args, { timeoutMs: 60_000 });
  expect(stderr).not.toContain('\x1b');
  expect(stderr).toContain('all as promised');
  const report: DemoReport = JSON.parse(stdout);
  expect(report).toMatchObject({ kind: 'DemoReport', isOk: true, failures: 0 });
  expect(report.connections).toBeGreaterThan(10_000);
  expect(code).toBe(0);
  expect(newSince(before)).toEqual([]);
}, 90_000);

/** Interrupted while it builds, measures, kills things. */
test.each([
  { signal: 'SIGINT', code: 130, when: 'nsenter' },
  { signal: 'SIGINT', code: 130, when: 'even:' },
  { signal: 'SIGTERM', code: 143, when: '5 → 8' },
  { signal: 'SIGINT', code: 130, when: 'no agent' },
] as const)(
  '$signal at $when ends with $code and leaves nothing',
  async ({ signal, code, when }) => {
    const before = present();
    let isReached = false;
    const child = start(process.execPath, [compiledPath('main.js'), 'demo'], {
      onStdoutLine: (line) => {
        if (isReached || !line.includes(when)) return;
        isReached = true;
        // To the whole group, as a terminal does it.
        process.kill(-child.pid, signal);
      },
    });
    expect(await child.exited).toBe(code);
    expect(isReached).toBe(true);
    await until(() => newSince(before).length === 0, { what: 'nothing left' });
  },
);

test('without root it says what is missing, and ends with 5 before it touches anything', async () => {
  const before = present();
  const nobody = ['--reuid', '65534', '--regid', '65534', '--clear-groups'];
  const argv = [...nobody, process.execPath, compiledPath('main.js'), 'demo'];
  const { code, stdout, stderr } = await run('setpriv', argv);
  expect(stdout).toMatch(/MISSING {2}root: /);
  expect(stderr).toContain('cannot run without: root');
  expect(code).toBe(5);
  expect(newSince(before)).toEqual([]);
});
