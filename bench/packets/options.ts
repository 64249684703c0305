// SPDX-License-Identifier: Apache-2.0
// The options of `npm run bench:packets`.
import { cpus } from 'node:os';
import { Command, InvalidArgumentError } from 'commander';
import { count, counts, listOf } from '../../tools/bench/lib/options.ts';
import { COLUMNS, type ColumnName, type Part } from './report/figures.ts';

export interface Options {
  readonly services: readonly number[];
  readonly columns: readonly ColumnName[];
  readonly parts: readonly Part[];
  readonly rounds: number;
  /** Only rows whose name contains it. */
  readonly rows: string;
  /** Of the amounts of each sample. */
  readonly scale: number;
  readonly cpu: number;
  /** With the compiled programs of another build, for the column `other`. */
  readonly programs: string | undefined;
  readonly json: string;
  /** Measure nothing, print the figures of the file as Markdown. */
  readonly markdown: boolean;
}

interface Flags extends Omit<Options, 'scale'> {
  readonly quick: boolean;
}

const PARTS: readonly Part[] = ['sockets', 'frames'];
const QUICK = { rounds: 3, scale: 0.25, services: [1, 1_000] } as const;

export function parseOptions(argv: readonly string[]): Options {
  const command = new Command('npm run bench:packets --')
    .description(
      'NodePort traffic through a node: plain routing, fairlead and kube-proxy, side by side',
    )
    .option('--services <list>', 'how many Services, 10 endpoints each', counts, [1, 10_000])
    .option('--columns <list>', `of ${COLUMNS.join(', ')}`, listOf(COLUMNS, ['plain', 'feeder']), [
      ...COLUMNS,
    ])
    .option('--parts <list>', `of ${PARTS.join(', ')}`, listOf(PARTS), PARTS)
    .option('--programs <folder>', 'of another build, as build/bpf: its columns are `other…`')
    .option('--rounds <count>', 'rounds, each with one sample of every cell', count, 15)
    .option('--rows <text>', 'only rows whose name contains it, as in: tcp remote', '')
    .option('--quick', 'small samples, 3 rounds, 1 and 1,000 Services: two minutes', false)
    .option('--cpu <number>', 'where the traffic runs', cpu, cpus().length - 1)
    .option('--json <file>', 'where the figures go', 'build/bench/packets.json')
    .option(
      '--markdown',
      'measure nothing: print the figures of that file as tables of Markdown',
      false,
    )
    .allowExcessArguments(false)
    .parse(argv, { from: 'user' });
  const { quick, ...given } = command.opts<Flags>();
  const flags = {
    ...given,
    columns: given.columns.filter((name) => !name.startsWith('other') || given.programs),
  };
  if (!quick) return { ...flags, scale: 1 };
  const isGiven = (name: keyof typeof QUICK & keyof Flags): boolean =>
    command.getOptionValueSource(name) === 'cli';
  return {
    ...{ ...flags, scale: QUICK.scale },
    rounds: isGiven('rounds') ? flags.rounds : QUICK.rounds,
    services: isGiven('services') ? flags.services : QUICK.services,
  };
}

function cpu(text: string): number {
  if (!/^\d+$/.test(text) || Number(text) >= cpus().length) {
    throw new InvalidArgumentError(`${text} is none of the ${cpus().length} processors.`);
  }
  return Number(text);
}
