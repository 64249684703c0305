// SPDX-License-Identifier: Apache-2.0
// What the kernel counts for the programs of a node, in samples of their own: counting slows programs down.
import { devicePins, earlyPins } from '../../../src/engines/bpf/kernel/devices/device-pins.ts';
import { pinFolder } from '../../../src/engines/bpf/kernel/loader/pins.ts';
import { listProcesses } from '../../../src/sys/cgroup.ts';
import { fairleadPaths } from '../../../test/support/fixture/proxies/fairlead.ts';
import { bpfHandles, type Count, countsOf, programOfLink } from '../programs.ts';
import type { ProgramCost } from '../report/frames/figures.ts';
import { NODE } from '../site/objects.ts';
import type { FrameColumn } from './column.ts';

/** By the program's name. */
export type Runs = ReadonlyMap<string, Count>;

/** Ids of the programs on the node's devices, with their names. */
export function programNames({ site }: FrameColumn): ReadonlyMap<number, string> {
  const folder = pinFolder(fairleadPaths(site, NODE).bpfRoot).links;
  const pins = [
    ...earlyPins(folder).map(({ path }) => ({ path, program: 'fl_xdp' })),
    ...devicePins(folder),
  ];
  return new Map(
    pins.flatMap(({ path, program }) => {
      const id = programOfLink(path);
      return id === undefined ? [] : [[id, program] as const];
    }),
  );
}

export async function readRuns(
  { feeder, toolsCgroup, name }: FrameColumn,
  names: ReadonlyMap<number, string>,
): Promise<Runs> {
  const [runs, ns] = await feeder.runs();
  const counts = countsOf(listProcesses(toolsCgroup).flatMap(bpfHandles), names);
  return new Map(runs > 0 ? [...counts, [name, { runs, ns }] as const] : counts);
}

/** Of what ran between the two readings. */
export function costs(
  before: Runs,
  after: Runs,
  packets: number,
): Readonly<Record<string, ProgramCost>> {
  const found = [...after].flatMap(([name, { runs, ns }]) => {
    const [moreRuns, moreNs] = [
      runs - (before.get(name)?.runs ?? 0),
      ns - (before.get(name)?.ns ?? 0),
    ];
    return moreRuns <= 0
      ? []
      : [[name, { nsPerRun: moreNs / moreRuns, runsPerPacket: moreRuns / packets }] as const];
  });
  return Object.fromEntries(found);
}
