// SPDX-License-Identifier: Apache-2.0
// `npm run bench`: compares fairlead with kube-proxy and with no proxy on this machine, or draws a report again.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command, Option } from 'commander';
import { jsonText, print, say } from '../../src/cli/output.ts';
import { FairleadError, reasonOf } from '../../src/errors.ts';
import { count, counts, listOf } from '../bench/lib/options.ts';
import { findColumns, requireNeeds } from '../bench/needs.ts';
import { type Amounts, FULL, QUICK } from '../bench/plan/settings.ts';
import { durationText } from '../bench/plan/time-left.ts';
import type { Variant } from '../bench/proxies/tools.ts';
import { skippedLines } from '../bench/render/cell-text.ts';
import { reportHtml } from '../bench/render/page/page.ts';
import { reportMarkdown, reportText } from '../bench/render/report-text.ts';
import { metricSvg, reportSvg } from '../bench/render/svg/figure.ts';
import { METRIC_NAMES, type MetricName } from '../bench/report/metrics.ts';
import { countText } from '../bench/report/numbers.ts';
import { parseReport } from '../bench/report/read.ts';
import { type BenchReport, COLUMNS, type ColumnName } from '../bench/report/types.ts';
import { type Progress, runBench } from '../bench/run.ts';
import { bar } from '../demo/screen.ts';

const FORMATS = {
  table: reportText,
  markdown: reportMarkdown,
  json: jsonText,
  svg: reportSvg,
  html: reportHtml,
} as const satisfies Readonly<Record<string, (report: BenchReport) => string>>;
type Format = keyof typeof FORMATS;

interface BenchOptions {
  readonly quick: boolean;
  readonly columns: readonly ColumnName[];
  readonly services?: readonly number[];
  readonly rounds?: number;
  readonly turns?: number;
  readonly roll: boolean;
  readonly iptables: Variant;
  readonly kubeProxy?: string;
  readonly report?: string;
  readonly output: Format;
  readonly metric?: MetricName;
  readonly outputDir?: string;
}

export function benchCommand(): Command {
  return new Command('bench')
    .description(
      'compare fairlead with kube-proxy and with no proxy on this machine, in network namespaces of its own',
    )
    .option(
      '--quick',
      'small samples, few repetitions, 100 and 1,000 Services: under 3 minutes',
      false,
    )
    .option('--columns <list>', `of ${COLUMNS.join(', ')}`, listOf(COLUMNS), [...COLUMNS])
    .option('--services <list>', 'how many Services, 10 endpoints each', counts)
    .option('--rounds <count>', 'rounds of traffic, each with one sample of every cell', count)
    .option('--turns <count>', 'starts of each proxy, with the changes that follow', count)
    .option('--no-roll', 'without the Service of 5,000 endpoints that is rolled over')
    .addOption(
      new Option('--iptables <variant>', 'iptables tools of all proxies')
        .choices(['legacy', 'nft'])
        .default('legacy'),
    )
    .option('--kube-proxy <file>', 'the program, if it is not in PATH')
    .option('--report <file>', 'measure nothing: render the JSON file of an earlier run')
    .addOption(
      new Option('-o, --output <format>', 'what is printed')
        .choices(Object.keys(FORMATS))
        .default('table'),
    )
    .addOption(
      new Option('--metric <name>', 'with -o svg: draw this metric alone').choices(METRIC_NAMES),
    )
    .option('--output-dir <dir>', 'also write bench.json, bench.svg and bench.html there')
    .action(bench);
}

async function bench(options: BenchOptions): Promise<void> {
  const report = options.report === undefined ? await measure(options) : read(options.report);
  print(printed(report, options).trimEnd());
  write(report, options);
}

const printed = (report: BenchReport, { output, metric }: BenchOptions): string =>
  output === 'svg' && metric !== undefined ? metricSvg(report, metric) : FORMATS[output](report);

function read(file: string): BenchReport {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new FairleadError('NOT_FOUND', `cannot read ${file}: ${reasonOf(error)}`);
  }
  return parseReport(text, file);
}

function write(report: BenchReport, { outputDir }: BenchOptions): void {
  if (outputDir === undefined) return;
  mkdirSync(outputDir, { recursive: true });
  for (const format of ['json', 'svg', 'html'] as const) {
    writeFileSync(join(outputDir, `bench.${format}`), `${FORMATS[format](report).trimEnd()}\n`);
  }
}

async function measure(options: BenchOptions): Promise<BenchReport> {
  await requireNeeds();
  const { iptables, kubeProxy } = options;
  const found = await findColumns(options.columns, { iptables, kubeProxy }, say);
  const settings = { ...amountsOf(options), columns: found.columns };
  let report: BenchReport | undefined;
  await runBench({
    ...{ settings, skipped: found.skipped },
    proxies: { kubeProxyPath: found.kubeProxyPath, iptables },
    onProgress: progressWriter(),
    onReport: (sofar) => {
      if (report === undefined) for (const line of skippedLines(sofar)) say(line);
      report = sofar;
      write(sofar, options);
    },
  });
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
  if (report === undefined) throw new FairleadError('BAD_OPTION', 'nothing to measure');
  return report;
}

function amountsOf({ quick, services, rounds, turns, roll }: BenchOptions): Amounts {
  const amounts = quick ? QUICK : FULL;
  return {
    ...amounts,
    ...(services !== undefined && { services }),
    ...(rounds !== undefined && { rounds }),
    ...(turns !== undefined && { turns, rollTurns: turns }),
    ...(!roll && { rollTurns: 0 }),
  };
}

const BAR_WIDTH = 24;
const LINE_EVERY_MS = 20_000;

/** Redrawn in a terminal; elsewhere a line now and then. */
function progressWriter(): (progress: Progress) => void {
  let lastMs = Number.NEGATIVE_INFINITY;
  return (progress) => {
    if (process.stderr.isTTY) {
      // A line that wraps could not be redrawn.
      const text = progressText(progress).slice(0, process.stderr.columns - 1);
      process.stderr.write(`\r\x1b[K${text}`);
    } else if (performance.now() - lastMs >= LINE_EVERY_MS) {
      lastMs = performance.now();
      say(`bench: ${progressText(progress)}`);
    }
  };
}

function progressText({ share, secondsLeft, step }: Progress): string {
  const isOfColumn = step.kind === 'turn' || step.kind === 'roll';
  const what = isOfColumn ? `${step.kind} of ${step.column}` : step.kind;
  const percent = `${Math.round(100 * share)} %`;
  const left = `${durationText(secondsLeft)} left`;
  return `${bar(share, BAR_WIDTH, '·')} ${percent}  ${countText(step.services)} Services, ${what}, ${left}`;
}

/** In ascending order, each once. */
