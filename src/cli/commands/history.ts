// SPDX-License-Identifier: Apache-2.0
// `fairlead history`: what this node had programmed at a time, what changed, and why. Reads files alone: no agent need run.
import { Command, InvalidArgumentError, Option } from 'commander';
import { historyDir } from '../../config/instance-paths.ts';
import { FairleadError, reasonOf } from '../../errors.ts';
import { latenciesOf } from '../../history/latency.ts';
import { type Timeline, timelineOf } from '../../history/timeline.ts';
import { readSegments } from '../../instance/history/files.ts';
import { addRunDirOption } from '../flags.ts';
import { ENTRY_COLUMNS, HELD_COLUMNS, heldPorts, LATENCY_COLUMNS } from '../history/text.ts';
import { timeMs } from '../history/time.ts';
import {
  addOutputOption,
  machine,
  type OutputFormat,
  print,
  say,
  terminalWidth,
} from '../output.ts';
import { type Column, table } from '../view/columns.ts';

interface HistoryOptions {
  readonly at?: number;
  readonly latency: boolean;
  readonly last: number;
  readonly runDir: string;
  readonly historyDir?: string;
  readonly output: OutputFormat;
}

export function historyCommand(): Command {
  const command = new Command('history')
    .description(
      'show what changed on this node and why, or with --at what it had programmed then; needs no agent',
    )
    .argument('[service]', 'svc/NAMESPACE/NAME, NAMESPACE/NAME or NAME (default: all Services)')
    .addOption(
      new Option(
        '--at <time>',
        'backends at this time: 2026-01-31T12:03:07Z, or 12:03:07 of the last 24 hours, in UTC',
      ).argParser(readTime),
    )
    .option('--latency', 'how long changes took to reach the kernel, per Service', false)
    .addOption(
      new Option('--last <count>', 'so many lines, the latest ones (0: all)')
        .argParser(readCount)
        .default(100),
    )
    .option('--history-dir <dir>', 'directory of the history (default: that of --run-dir)');
  return addOutputOption(addRunDirOption(command), ['table', 'json', 'yaml']).action(run);
}

function readTime(text: string): number {
  const ms = timeMs(text, Date.now());
  if (ms !== undefined) return ms;
  throw new InvalidArgumentError(`"${text}" is no time such as 2026-01-31T12:03:07Z or 12:03:07`);
}

function readCount(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new InvalidArgumentError(`"${text}" is not a number`);
}

async function run(name: string | undefined, options: HistoryOptions): Promise<void> {
  const { at, latency, output } = options;
  const dir = options.historyDir ?? historyDir(options.runDir);
  const last = latency || options.last === 0 ? undefined : options.last;
  const service = name === undefined ? undefined : serviceKey(name);
  const timeline = read(dir, { service, untilMs: at, last });
  if (at !== undefined && Date.parse(timeline.from ?? '') > at)
    throw new FairleadError('NOT_FOUND', `the history in ${dir} begins at ${timeline.from}`);
  if (latency) {
    const items = latenciesOf(timeline.entries);
    await show({ kind: 'HistoryLatency', items }, LATENCY_COLUMNS, output);
  } else if (at !== undefined) {
    const items = heldPorts(timeline.services);
    await show({ kind: 'HistoryState', items }, HELD_COLUMNS, output);
  } else await show({ kind: 'History', items: timeline.entries }, ENTRY_COLUMNS, output);
}

/** Throws NOT_FOUND. */
function read(dir: string, asked: Parameters<typeof timelineOf>[1]): Timeline {
  try {
    const timeline = timelineOf(readSegments(dir), asked);
    if (timeline.from !== undefined) return timeline;
  } catch (error) {
    throw new FairleadError(
      'NOT_FOUND',
      `no history in ${dir}: ${reasonOf(error)}; name the --run-dir or --history-dir of the agent`,
    );
  }
  throw new FairleadError('NOT_FOUND', `the history in ${dir} is empty`);
}

const serviceKey = (name: string): string => {
  const path = name.replace(/^(svc|service|services)\//, '');
  return path.includes('/') ? path : `default/${path}`;
};

async function show<Row>(
  { kind, items }: { readonly kind: string; readonly items: readonly Row[] },
  columns: readonly Column<Row>[],
  output: OutputFormat,
): Promise<void> {
  if (output.kind !== 'table') {
    print(await machine({ apiVersion: 'fairlead.io/v1', kind, items }, output));
    return;
  }
  if (items.length === 0) {
    say('nothing found');
    return;
  }
  const options = { isWide: false, hasHeaders: true, width: terminalWidth() };
  print(table(items, columns, options).text);
}
