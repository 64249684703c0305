// SPDX-License-Identifier: Apache-2.0
// What a connection of no Service's sees of the frames that pass the same device: requests to a pod, beside so many
// datagrams to Services.
import { turns } from '../../../tools/lab/columns/turns.ts';
import type { Latency, LatencyRow } from '../report/frames/figures.ts';
import { destination } from '../site/traffic.ts';
import { type FrameColumn, isDirect } from './column.ts';
import { aimOf, ROWS } from './rows.ts';
import type { Rounds } from './samples.ts';

/** Frames a second: a fifth of what the slowest column can do. */
const RATE = 100_000;
const REQUESTS = 4_000;
/** More than the requests take. */
const LOAD_MS = 400;
const LOAD_ROW = ROWS[0]!;

export async function measureLatencies(
  all: readonly FrameColumn[],
  { services, rounds, scale }: Rounds,
): Promise<readonly LatencyRow[]> {
  const columns = all.filter(({ name }) => name !== 'feeder');
  const none = () => Object.fromEntries(columns.map(({ name }) => [name, [] as Latency[]]));
  const [quiet, loaded] = [none(), none()];
  for (const column of columns) {
    await column.feeder.take(LOAD_ROW, aimOf(LOAD_ROW, services, isDirect(column)));
  }
  for (let round = 0; round < rounds; round += 1) {
    for (const column of turns(columns, round)) {
      quiet[column.name]?.push(await probe(column, 0, scale));
      loaded[column.name]?.push(await probe(column, RATE, scale));
    }
  }
  return [
    { name: 'nothing else', samples: quiet },
    { name: `${RATE.toLocaleString('en')} datagrams a second`, samples: loaded },
  ];
}

async function probe(
  { site, traffic, feeder }: FrameColumn,
  rate: number,
  scale: number,
): Promise<Latency> {
  const load = rate > 0 ? feeder.load(rate, LOAD_MS * scale) : undefined;
  const to = destination(site, 'local', true);
  const { units, lost, p50Ns, p99Ns, p999Ns } = await traffic.measure(
    'request',
    to,
    Math.ceil(REQUESTS * scale),
  );
  const { frames = 0, atServer = 0 } = (await load) ?? {};
  return { units, lost, p50Ns, p99Ns, p999Ns, load: frames, loadLost: frames - atServer };
}
