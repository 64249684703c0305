// SPDX-License-Identifier: Apache-2.0
// What `fairlead probe` says on Debian's kernels: the table in docs/probe.md. FAIRLEAD_UPDATE_DOCS=1 writes that table instead.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { EXIT } from '../../../src/errors.ts';
import type { Served } from '../../../src/probe/choice.ts';
import { FEATURE_NAMES } from '../../../src/probe/features.ts';
import { packageRoot } from '../../../src/sys/package.ts';
import { ALL_KERNELS, type Guest, hasPackets, type Kernel, onEach } from './guest.ts';

interface Report {
  readonly items: readonly {
    readonly feature: string;
    readonly answer: string;
    readonly reason: string;
  }[];
  readonly tier: { readonly name?: string };
  readonly engine: Served;
}

const page = join(packageRoot(), 'docs/probe.md');
const TABLE = /(?<=\n## Answers by kernel\n.*?\n\n)\| \|.*?(?=\n\n)/s;
type Column = ReadonlyMap<string, string>;

/** The column of each kernel, by the names of the rows. */
function documented(): ReadonlyMap<Kernel, Column> {
  const [table = ''] = TABLE.exec(readFileSync(page, 'utf8')) ?? [];
  const [, , ...rows] = table
    .split('\n')
    .map((line) => line.split('|').map((cell) => cell.trim().replaceAll('`', '')));
  return new Map(
    ALL_KERNELS.map((kernel, at) => [
      kernel,
      new Map(rows.map((cells) => [cells[1] ?? '', cells[at + 2] ?? ''])),
    ]),
  );
}

/** With the columns of these kernels in place of those that it has for them. A feature that all of them have is not listed. */
function writeTable(probed: ReadonlyMap<Kernel, Report>): void {
  const before = documented();
  const columns = ALL_KERNELS.map((kernel): Column => {
    const report = probed.get(kernel);
    return report === undefined ? (before.get(kernel) ?? new Map()) : columnOf(report, () => true);
  });
  const cellsOf = (name: string): readonly string[] =>
    columns.map((column) => column.get(name) ?? 'yes');
  const features = FEATURE_NAMES.filter((name) => cellsOf(name).some((cell) => cell !== 'yes'));
  const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  const table = [
    `|${row(['', ...ALL_KERNELS]).slice(2)}`,
    `|${'---|'.repeat(ALL_KERNELS.length + 1)}`,
    ...features.map((name) => row([`\`${name}\``, ...cellsOf(name)])),
    ...WAYS.map((name) => row([name, ...cellsOf(name)])),
  ].join('\n');
  writeFileSync(
    page,
    readFileSync(page, 'utf8').replace(TABLE, () => table),
  );
}

const WAYS = ['Tier', 'Devices', 'Refused connections', 'Expired flows', 'Stale sockets'] as const;

/** In the words of that table: the features that it lists, those that are not there, and how the parts work. */
function columnOf({ items, tier, engine }: Report, isListed: (name: string) => boolean): Column {
  const { ways } = engine;
  const named = items.filter(({ feature, answer }) => isListed(feature) || answer !== 'yes');
  const texts: Readonly<Record<(typeof WAYS)[number], string | undefined>> = {
    Tier: tier?.name,
    Devices: ways.devices,
    'Refused connections': ways.refusedConnections,
    'Expired flows': ways.expiredFlows,
    'Stale sockets': ways.staleSockets,
  };
  return new Map([
    ...named.map(({ feature, answer }) => [feature, answer] as const),
    ...WAYS.map((name) => [name, texts[name] ?? ''] as const),
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

const probed = await onEach(probeIn);
if (process.env['FAIRLEAD_UPDATE_DOCS'] !== undefined) {
  writeTable(new Map(probed.map(([kernel, { report }]) => [kernel, report])));
}
const table = documented();

describe.each(probed)('a probe on Linux %s', (kernel, { code, report, left }) => {
  test('has an answer for every feature', () => {
    expect(report.items.map(({ feature }) => feature)).toEqual(FEATURE_NAMES);
  });

  test('says what docs/probe.md has', () => {
    const reasons = report.items.filter(({ answer }) => answer !== 'yes');
    const listed = table.get(kernel) ?? new Map();
    const column = columnOf(report, (name) => listed.has(name));
    expect(Object.fromEntries(column), JSON.stringify(reasons)).toEqual(Object.fromEntries(listed));
  });

  test('serves sockets by eBPF, and packets if the kernel can; leaves no cgroup', () => {
    const { sockets, packets } = report.engine;
    const byRules = { code: EXIT.degraded, sockets: 'bpf', packets: 'iptables' };
    const byBpf = { code: EXIT.fine, sockets: 'bpf', packets: 'bpf' };
    expect({ code, sockets, packets }).toEqual(hasPackets(kernel) ? byBpf : byRules);
    expect(left).toBe('');
  });
});
