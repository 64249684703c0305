// SPDX-License-Identifier: Apache-2.0
// The driver's side of feed.c.
import { join } from 'node:path';
import { packageRoot } from '../../../src/sys/package.ts';
import type { ColumnSite } from '../../../tools/lab/columns/site.ts';
import { startLines } from '../../../tools/lab/lines.ts';
import type { ColumnName } from '../report/figures.ts';
import { type Aim, type Row, taskLine } from './rows.ts';

export interface Fed {
  /** Frames that were made. */
  readonly frames: number;
  readonly cpuNs: number;
  readonly atServer: number;
  readonly atClient: number;
  /** Dropped by a node that drops everything. */
  readonly atNode: number;
}

export interface Feeder {
  take(how: Pick<Row, 'protocol' | 'order' | 'manner'>, aim: Aim): Promise<void>;
  feed(frames: number): Promise<Fed>;
  /** So many frames a second, in bursts. */
  load(rate: number, durationMs: number): Promise<Fed>;
  /** Empties the node's table of tracked connections. */
  forget(): Promise<void>;
  /** Runs of the node's own program and their time; 0 without one. */
  runs(): Promise<readonly [runs: number, ns: number]>;
  stop(): Promise<void>;
}

/** The XDP program of a node without a proxy. */
const PROGRAMS: Partial<Record<ColumnName, string>> = { feeder: 'refuse', router: 'route' };

export async function startFeeder(site: ColumnSite<ColumnName>, cpu: number): Promise<Feeder> {
  const built = (path: string): string => join(packageRoot(), 'build', path);
  const { name, client, namespaceOf } = site;
  const program = await startLines(client, [
    ...['setpriv', '--pdeathsig', 'KILL', built('bench/feed'), String(cpu)],
    built('bpf-bench/frames.bpf.o'),
    ...(['client', 'node', 'far', 'pod'] as const).map(namespaceOf),
    PROGRAMS[name] ?? '-',
  ]);
  const ask = async (line: string): Promise<Fed> => {
    const numbers = (await program.exchange(line)).split(' ').map(Number);
    const [frames = 0, cpuNs = 0, atServer = 0, atClient = 0, atNode = 0] = numbers;
    return { frames, cpuNs, atServer, atClient, atNode };
  };
  const command = async (line: string): Promise<void> => {
    const answer = await program.exchange(line);
    if (answer !== 'ok') throw new Error(`${line}: ${answer}`);
  };
  return {
    take: (how, aim) => command(taskLine(how, aim)),
    feed: (frames) => ask(`feed ${frames}`),
    load: (rate, durationMs) => ask(`load ${rate} ${durationMs}`),
    forget: () => command('forget'),
    runs: async () => {
      const [runs = 0, ns = 0] = (await program.exchange('runs')).split(' ').map(Number);
      return [runs, ns];
    },
    stop: () => program.stop(),
  };
}
