// SPDX-License-Identifier: Apache-2.0
// What the kernel counts for fairlead's programs (bpf_stats): in rounds of their own, because counting slows programs
// down. A program's handle, which the agent has, tells its counts; a pinned link tells which program runs where.
import { readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { devicePins } from '../../src/engines/bpf/kernel/devices/device-pins.ts';
import { pinFolder } from '../../src/engines/bpf/kernel/loader/pins.ts';
import { listProcesses } from '../../src/sys/cgroup.ts';
import { openPinnedLink } from '../../src/sys/native.ts';
import type { ProgramFigures } from './report/figures.ts';

const STATISTICS = '/proc/sys/kernel/bpf_stats_enabled';
type Direction = keyof ProgramFigures;

export interface Count {
  readonly runs: number;
  readonly ns: number;
}
export type Counts = Readonly<Record<Direction, Count>>;

export interface Statistics {
  count(isOn: boolean): void;
  /** Sets what was set before. */
  restore(): void;
}

/** Off, also if somebody else has left it on; restored when this process ends. */
export function holdStatistics(): Statistics {
  const before = readFileSync(STATISTICS, 'utf8').trim();
  const write = (): void => writeFileSync(STATISTICS, before);
  process.on('exit', write);
  writeFileSync(STATISTICS, '0');
  return {
    count: (isOn) => writeFileSync(STATISTICS, isOn ? '1' : '0'),
    restore: () => {
      write();
      process.off('exit', write);
    },
  };
}

/** Ids of the programs on devices. Clsact filters are not found: such a kernel has no figures. */
export function programDirections(bpfRoot: string): ReadonlyMap<number, Direction> {
  const found = new Map<number, Direction>();
  for (const { path, direction } of devicePins(pinFolder(bpfRoot).links)) {
    const program = programOfLink(path);
    if (program !== undefined) found.set(program, direction);
  }
  return found;
}

/** The id of the program that a pinned link runs. */
export function programOfLink(path: string): number | undefined {
  const link = openPinnedLink(path);
  const info = bpfHandles('self').find((text) => field(text, 'link_id') === link.id);
  link.close();
  return info === undefined ? undefined : field(info, 'prog_id');
}

/** Sums over the programs that processes of this cgroup hold. */
export function readCounts(cgroup: string, directions: ReadonlyMap<number, Direction>): Counts {
  return sumCounts(listProcesses(cgroup).flatMap(bpfHandles), directions);
}

/** @param infos texts of /proc/PID/fdinfo */
export function sumCounts(
  infos: readonly string[],
  directions: ReadonlyMap<number, Direction>,
): Counts {
  const counts = { ingress: { runs: 0, ns: 0 }, egress: { runs: 0, ns: 0 } };
  for (const [direction, { runs, ns }] of countsOf(infos, directions)) {
    counts[direction].runs += runs;
    counts[direction].ns += ns;
  }
  return counts;
}

/** What each program has counted that `names` has a name for. */
export function countsOf<Name>(
  infos: readonly string[],
  names: ReadonlyMap<number, Name>,
): readonly (readonly [Name, Count])[] {
  const left = new Map(names);
  const counts: (readonly [Name, Count])[] = [];
  for (const info of infos) {
    const [program, runs] = [field(info, 'prog_id') ?? 0, field(info, 'run_cnt')];
    const name = left.get(program);
    if (name === undefined || runs === undefined) continue;
    left.delete(program); // Several handles may be open of one.
    counts.push([name, { runs, ns: field(info, 'run_time_ns') ?? 0 }]);
  }
  return counts;
}

export interface Counted {
  readonly counts: Counts;
  /** Datagrams, connections or bytes. */
  readonly units: number;
}

const NO_COUNT: Count = { runs: 0, ns: 0 };
export const NOTHING_COUNTED: Counted = {
  counts: { ingress: NO_COUNT, egress: NO_COUNT },
  units: 0,
};

/** With what was counted between the two readings, for so many units. */
export function added(
  sum: Counted,
  span: { readonly before: Counts; readonly after: Counts; readonly units: number },
): Counted {
  const count = (direction: Direction): Count => ({
    runs: sum.counts[direction].runs + span.after[direction].runs - span.before[direction].runs,
    ns: sum.counts[direction].ns + span.after[direction].ns - span.before[direction].ns,
  });
  return {
    counts: { ingress: count('ingress'), egress: count('egress') },
    units: sum.units + span.units,
  };
}

export function perRun({ counts, units }: Counted): ProgramFigures {
  const figure = ({ runs, ns }: Count) => ({ nsPerRun: ns / runs, runsPerUnit: runs / units });
  return { ingress: figure(counts.ingress), egress: figure(counts.egress) };
}

function field(info: string, name: string): number | undefined {
  const text = new RegExp(`^${name}:\\s*(\\d+)`, 'm').exec(info)?.[1];
  return text === undefined ? undefined : Number(text);
}

export function bpfHandles(pid: number | 'self'): string[] {
  return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
    try {
      const isBpf = /bpf[-_](prog|link)$/.test(readlinkSync(`/proc/${pid}/fd/${fd}`));
      return isBpf ? [readFileSync(`/proc/${pid}/fdinfo/${fd}`, 'utf8')] : [];
    } catch {
      return []; // Closed meanwhile.
    }
  });
}
