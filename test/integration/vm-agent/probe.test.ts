// SPDX-License-Identifier: Apache-2.0
// What `fairlead probe` says on older kernels (scripts/test-vm --probe): the table in docs/probe.md.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import type { Served } from '../../../src/agent/probe/choice.ts';
import { FEATURE_NAMES } from '../../../src/agent/probe/features.ts';

const fromRoot = (path: string): string =>
  fileURLToPath(new URL(`../../../${path}`, import.meta.url));
const script = fromRoot('scripts/test-vm');
const TIMEOUT_MS = 900_000;
const KERNELS = ['5.10', '6.1', '6.12'] as const;

/** The column of a kernel, by the names of the rows. */
function documented(kernel: (typeof KERNELS)[number]): ReadonlyMap<string, string> {
  const page = readFileSync(fromRoot('docs/probe.md'), 'utf8');
  const [, section = ''] = /\n## Answers by kernel\n(.*?)\n## /s.exec(page) ?? [];
  const rows = section
    .split('\n')
    .filter((line) => /^\| [`\w]/.test(line))
    .map((line) => line.split('|').map((cell) => cell.trim().replaceAll('`', '')));
  const column = 2 + KERNELS.indexOf(kernel);
  return new Map(rows.map((cells) => [cells[1] ?? '', cells[column] ?? '']));
}

test.each(KERNELS)(
  'a probe on Linux %s says what docs/probe.md has',
  async (kernel) => {
    const argv = ['--probe', kernel];
    const { stdout } = await promisify(execFile)(script, argv, { timeout: TIMEOUT_MS });
    const lines = stdout.split(/\r?\n/);
    expect(lines.filter((line) => line.startsWith('not ok'))).toEqual([]);
    const answers = new Map(
      [...stdout.matchAll(/^# probe (.+?) \| (yes|no|could not tell) \|/gm)].map(
        ([, feature = '', answer = '']) => [feature, answer],
      ),
    );
    expect([...answers.keys()], stdout.slice(-2_000)).toEqual(FEATURE_NAMES);
    const engine = /^# engine (.*?)\r?$/m.exec(stdout)?.[1] ?? '{}';
    const { sockets, packets, ways }: Served = JSON.parse(engine);
    expect({ sockets, packets }).toEqual({ sockets: 'bpf', packets: 'bpf' });
    const said = new Map([
      ...[...answers].filter(([name]) => documented(kernel).has(name)),
      ...[...answers].filter(([, answer]) => answer !== 'yes'),
      ['Tier', /^# tier (\S+)/m.exec(stdout)?.[1] ?? ''],
      ['Devices', ways.devices ?? ''],
      ['Refused connections', ways.refusedConnections ?? ''],
      ['Expired flows', ways.expiredFlows ?? ''],
      ['Stale sockets', ways.staleSockets ?? ''],
    ]);
    expect(Object.fromEntries(said)).toEqual(Object.fromEntries(documented(kernel)));
  },
  TIMEOUT_MS,
);
