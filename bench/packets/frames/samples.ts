// SPDX-License-Identifier: Apache-2.0
// Samples of one row: each column is warmed up and tried first, then all have their turn in each round.
import { turns } from '../../../tools/lab/columns/turns.ts';
import type { ColumnName } from '../report/figures.ts';
import type { FrameRow, FrameSample, ProgramCost } from '../report/frames/figures.ts';
import { type FrameColumn, isDirect } from './column.ts';
import type { Fed } from './feeder.ts';
import { costs, programNames, readRuns } from './programs.ts';
import { aimOf, type Row } from './rows.ts';

/** CPU time of a sample. */
const SAMPLE_NS = 40e6;
const FEWEST = 1_024;
const MOST = 65_536;

export interface Rounds {
  readonly services: number;
  readonly rounds: number;
  readonly scale: number;
}

/** A node that drops what comes in sends no answers. */
const hasRow = (column: FrameColumn, { manner }: Row): boolean =>
  column.name !== 'feeder' || manner === 'sink';

/** @param count turns the kernel's counting of programs on and off */
export async function measureRow(
  all: readonly FrameColumn[],
  row: Row,
  how: Rounds,
  count: (isOn: boolean) => void,
): Promise<FrameRow> {
  const columns = all.filter((column) => hasRow(column, row));
  const frames = new Map<FrameColumn, number>();
  for (const column of columns) frames.set(column, await prepare(column, row, how));
  const samples = Object.fromEntries(columns.map(({ name }) => [name, [] as FrameSample[]]));
  for (let round = 0; round < how.rounds; round += 1) {
    for (const column of turns(columns, round)) {
      const sample = await measureOnce(column, row, how, frames.get(column) ?? FEWEST);
      samples[column.name]?.push(sample);
    }
  }
  const programs: Partial<Record<ColumnName, Readonly<Record<string, ProgramCost>>>> = {};
  count(true);
  for (const column of columns) {
    const found = await measurePrograms(column, row, how, frames.get(column) ?? FEWEST);
    if (Object.keys(found).length > 0) programs[column.name] = found;
  }
  count(false);
  const { name, unit, packets } = row;
  return { name, unit, packets, samples, programs };
}

/** Flows that exist, caches, and how many frames make a sample. */
async function prepare(
  column: FrameColumn,
  row: Row,
  { services, scale }: Rounds,
): Promise<number> {
  // A flow is there when each side has sent twice.
  await measureOnce(column, row, { services }, FEWEST);
  const { cpuNs, frames } = await measureOnce(column, row, { services }, FEWEST);
  const wanted = (SAMPLE_NS * scale * frames) / cpuNs;
  return 64 * Math.round(Math.min(Math.max(wanted, FEWEST), MOST) / 64);
}

async function measureOnce(
  column: FrameColumn,
  row: Row,
  { services }: Pick<Rounds, 'services'>,
  frames: number,
): Promise<FrameSample> {
  await warmUp(column, row, services);
  return feed(column, row, frames);
}

/** As if this column had had no pause: proxies do more for a flow that was silent for a second. */
async function warmUp(column: FrameColumn, row: Row, services: number): Promise<void> {
  const aim = aimOf(row, services, isDirect(column));
  if (row.order === 'new') {
    await column.feeder.forget();
  } else {
    await column.feeder.take({ ...row, order: 'in turn', manner: 'answer' }, aim);
    await column.feeder.feed(aim.flows);
  }
  await column.feeder.take(row, aim);
}

const feed = async ({ feeder }: FrameColumn, row: Row, frames: number): Promise<FrameSample> =>
  sampleOf(row, await feeder.feed(frames));

/** What arrived, by what the servers and clients have counted. */
export function sampleOf(
  { unit, packets, atServer }: Pick<Row, 'unit' | 'packets' | 'atServer'>,
  fed: Fed,
): FrameSample {
  const { frames, cpuNs } = fed;
  const arrived = fed.atNode + fed.atServer;
  const [units, expected] =
    unit === 'connections'
      ? [Math.floor(arrived / atServer), frames]
      : [arrived + fed.atClient, frames * packets];
  return { units, cpuNs, lost: Math.max(0, expected - units), resent: 0, frames };
}

async function measurePrograms(
  column: FrameColumn,
  row: Row,
  how: Pick<Rounds, 'services'>,
  frames: number,
): Promise<Readonly<Record<string, ProgramCost>>> {
  const names = programNames(column);
  await warmUp(column, row, how.services);
  const before = await readRuns(column, names);
  await feed(column, row, frames);
  return costs(before, await readRuns(column, names), frames * row.packets);
}
