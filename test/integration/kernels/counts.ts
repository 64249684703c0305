// SPDX-License-Identifier: Apache-2.0
// How many instructions the verifier walks for each program of the product, here and in virtual machines, and the table of them in
// instructions.md.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runSync } from '../../../src/sys/exec.ts';
import { packageRoot } from '../../../src/sys/package.ts';

/** Those that an agent works with; of the others each program tries one thing, most of them for `fairlead probe` alone. */
export const OBJECTS = [
  'sock',
  'packet',
  'xdp',
  'xdp_watch',
  'sweep',
  'find_stale',
  'walk_stale',
  'holders',
  'destroy',
  'carry',
  'carry_conn',
] as const;

/** By `sock/fl_connect4`. An object that is refused has none of its programs here. */
export interface Counts {
  readonly programs: ReadonlyMap<string, number>;
  /** By object: what the kernel says. */
  readonly refused: ReadonlyMap<string, string>;
}

/** Compiles the program that counts into a folder; the arguments run it there. */
export function compileCount(folder: string): readonly string[] {
  const program = join(folder, 'count');
  const source = join(import.meta.dirname, 'count.c');
  const flags = ['-std=gnu11', '-O1', '-Wall', '-Wextra', '-Werror', '-static'];
  const libraries = ['-lbpf', '-lelf', '-lz'];
  const { code, stderr } = runSync('cc', [...flags, '-o', program, source, ...libraries]);
  if (code !== 0) throw new Error(`cc ${source}: ${stderr.trim()}`);
  return [program, ...OBJECTS.map((name) => join(packageRoot(), `build/bpf/${name}.bpf.o`))];
}

export function parseCounts(output: string): Counts {
  const lines = (pattern: RegExp) => [...output.matchAll(pattern)];
  return {
    programs: new Map(
      lines(/^(\w+) (\w+) (\d+)$/gm).map(([, object, program, count]) => [
        `${object}/${program}`,
        Number(count),
      ]),
    ),
    refused: new Map(
      lines(/^(\w+) refused: (.*)$/gm).map(([, object = '', reason = '']) => [object, reason]),
    ),
  };
}

/** A cell: the count, or `refused`. */
export function cellOf({ programs, refused }: Counts, program: string): string {
  const count = programs.get(program);
  if (count !== undefined) return String(count);
  return refused.has(program.split('/')[0] ?? '') ? 'refused' : 'missing';
}

const page = join(import.meta.dirname, 'instructions.md');
const TABLE = /(?<=\n\n)\| Program .*?(?=\n$)/s;

/** The column of each kernel, by program. */
export function documented(): ReadonlyMap<string, ReadonlyMap<string, string>> {
  const [table = ''] = TABLE.exec(readFileSync(page, 'utf8')) ?? [];
  const rows = table.split('\n').map((line) => line.split('|').map((cell) => cell.trim()));
  const [head = [], , ...body] = rows;
  return new Map(
    head
      .slice(2, -1)
      .map((kernel, index) => [
        kernel,
        new Map(
          body.map((cells) => [(cells[1] ?? '').replaceAll('`', ''), cells[index + 2] ?? '']),
        ),
      ]),
  );
}

/** The table with these columns in place of those it has for the same kernels. */
export function writeTable(counted: ReadonlyMap<string, Counts>): void {
  const before = documented();
  const kernels = [...new Set([...before.keys(), ...counted.keys()])];
  const programs = [...new Set([...counted.values()].flatMap((one) => [...one.programs.keys()]))];
  const cell = (kernel: string, program: string): string => {
    const counts = counted.get(kernel);
    return counts === undefined
      ? (before.get(kernel)?.get(program) ?? '')
      : cellOf(counts, program);
  };
  const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  const table = [
    row(['Program', ...kernels]),
    `|${'---|'.repeat(kernels.length + 1)}`,
    ...programs.map((one) => row([`\`${one}\``, ...kernels.map((kernel) => cell(kernel, one))])),
  ].join('\n');
  writeFileSync(
    page,
    readFileSync(page, 'utf8').replace(TABLE, () => table),
  );
}
