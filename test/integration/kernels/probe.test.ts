// SPDX-License-Identifier: Apache-2.0
// What `fairlead probe` says on Debian's kernels: the table in docs/probe.md.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Served } from '../../../src/agent/probe/choice.ts';
import { FEATURE_NAMES } from '../../../src/agent/probe/features.ts';
import { packageRoot } from '../../../src/sys/package.ts';
import { ALL_KERNELS, type Guest, type Kernel, onEach } from './guest.ts';

interface Report {
  readonly items: readonly {
    readonly feature: string;
    readonly answer: string;
    readonly reason: string;
  }[];
  readonly tier: { readonly name?: string };
  readonly engine: Served;
}

/** The column of a kernel, by the names of the rows. */
function documented(kernel: Kernel): ReadonlyMap<string, string> {
  const page = readFileSync(join(packageRoot(), 'docs/probe.md'), 'utf8');
  const [, section = ''] = /\n## Answers by kernel\n(.*?)\n## /s.exec(page) ?? [];
  const rows = section
    .split('\n')
    .filter((line) => /^\| [`\w]/.test(line))
    .map((line) => line.split('|').map((cell) => cell.trim().replaceAll('`', '')));
  const column = 2 + ALL_KERNELS.indexOf(kernel);
  return new Map(rows.map((cells) => [cells[1] ?? '', cells[column] ?? '']));
}

/** In the words of that table: what differs from yes, and what the table has. */
function answersOf({ items, tier, engine }: Report, kernel: Kernel): ReadonlyMap<string, string> {
  const { ways } = engine;
  const listed = documented(kernel);
  const named = items.filter(({ feature, answer }) => listed.has(feature) || answer !== 'yes');
  return new Map([
    ...named.map(({ feature, answer }) => [feature, answer] as const),
    ['Tier', tier.name ?? ''],
    ['Devices', ways.devices ?? ''],
    ['Refused connections', ways.refusedConnections ?? ''],
    ['Expired flows', ways.expiredFlows ?? ''],
    ['Stale sockets', ways.staleSockets ?? ''],
  ]);
}

interface Probed {
  readonly code: number;
  readonly report: Report;
  readonly left: string;
}

async function probeIn(guest: Guest): Promise<Probed> {
  const path = join(guest.folder, 'probe.json');
  const { code, output } = await guest.run(
    'probe',
    `node dist/main.js probe -o json --timeout 240 >${path}`,
  );
  const text = readFileSync(path, 'utf8');
  if (!text.startsWith('{')) throw new Error(`${guest.name}: code ${code}: ${output}`);
  const { output: left } = await guest.run(
    'what is left',
    'ls -d /sys/fs/cgroup/fairlead-probe* 2>/dev/null',
  );
  return { code, report: JSON.parse(text), left };
}

describe.each(await onEach(probeIn))('a probe on Linux %s', (kernel, { code, report, left }) => {
  test('has an answer for every feature', () => {
    expect(report.items.map(({ feature }) => feature)).toEqual(FEATURE_NAMES);
  });

  test('says what docs/probe.md has', () => {
    const reasons = report.items.filter(({ answer }) => answer !== 'yes');
    expect(Object.fromEntries(answersOf(report, kernel)), JSON.stringify(reasons)).toEqual(
      Object.fromEntries(documented(kernel)),
    );
  });

  test('serves everything by eBPF, and leaves no cgroup', () => {
    const { sockets, packets } = report.engine;
    expect({ code, sockets, packets }).toEqual({ code: 0, sockets: 'bpf', packets: 'bpf' });
    expect(left).toBe('');
  });
});
