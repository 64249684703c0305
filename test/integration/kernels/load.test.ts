// SPDX-License-Identifier: Apache-2.0
// Every program loads on Debian's kernels and on the running one, or is refused as instructions.md says, whose table of instructions is
// compared. FAIRLEAD_UPDATE_DOCS=1 writes that table instead.
import { mkdirSync } from 'node:fs';
import { release } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { runSync } from '../../../src/sys/exec.ts';
import { packageRoot } from '../../../src/sys/package.ts';
import { mapIteratorRefusal } from '../../support/programs/map-iterators.ts';
import {
  type Counts,
  cellOf,
  compileCount,
  documented,
  parseCounts,
  writeTable,
} from './counts.ts';
import { type Guest, hasPackets, KERNELS, onEach } from './guest.ts';

/** Another build of the same kernel, or another compiler. */
const TOLERANCE = 0.1;
/** Loaded by every agent; the other objects have a fallback. */
const neededOn = (kernel: string): readonly string[] =>
  KERNELS.some((one) => one === kernel && !hasPackets(one)) ? ['sock'] : ['sock', 'packet'];

const [, running = ''] = /^(\d+\.\d+)/.exec(release()) ?? [];

async function countIn(guest: Guest): Promise<Counts> {
  const { output } = await guest.run('programs', compileCount(guest.folder).join(' '));
  return parseCounts(output);
}

function countHere(): Counts {
  const folder = join(packageRoot(), 'build/test/kernels', ['here', ...KERNELS].join('-'));
  mkdirSync(folder, { recursive: true });
  const [program = '', ...args] = compileCount(folder);
  return parseCounts(runSync(program, args).stdout);
}

const counted = new Map<string, Counts>(await onEach(countIn));
const here = countHere();
// Its tests are beside those of the newest one.
if (KERNELS.includes('6.12')) counted.set(running, here);
if (process.env['FAIRLEAD_UPDATE_DOCS'] !== undefined) writeTable(counted);
const table = documented();
const programs = [
  ...new Set([here, ...counted.values()].flatMap((one) => [...one.programs.keys()])),
];
for (const program of programs) {
  const cells = [...counted].map(([kernel, one]) => `${kernel} ${cellOf(one, program)}`);
  process.stdout.write(`${program.padEnd(32)} ${cells.join('  ')}\n`);
}

describe.each([...counted])('Linux %s', (kernel, counts) => {
  test('what every agent needs is loaded', () => {
    expect(neededOn(kernel).filter((object) => counts.refused.has(object))).toEqual([]);
    expect(counts.programs.size).toBeGreaterThan(15);
  });

  test.skipIf(!table.has(kernel))('instructions.md has every program, and its instructions', () => {
    const column = table.get(kernel)!;
    expect([...column.keys()].sort()).toEqual([...programs].sort());
    const off = programs
      .filter((program) => !(counts === here && isRefusedHere(program)))
      .filter((program) => !isNear(column.get(program), cellOf(counts, program)));
    expect(off.map((one) => `${one}: ${column.get(one)}, not ${cellOf(counts, one)}`)).toEqual([]);
  });
});

/** The policy of the running kernel may refuse all iterators over maps, which its version has. */
const isRefusedHere = (program: string): boolean =>
  /^(find_stale|carry)\//.test(program) && mapIteratorRefusal() !== undefined;

function isNear(written: string | undefined, seen: string): boolean {
  if (written === seen) return true;
  return Math.abs(Number(written) - Number(seen)) <= TOLERANCE * Number(seen);
}
