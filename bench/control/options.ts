// SPDX-License-Identifier: Apache-2.0
// The options of `npm run bench:control`.
import { Command, Option } from 'commander';
import { count, counts, listOf } from '../../tools/bench/lib/options.ts';
import { PROXIES, type ProxyName, VARIANTS, type Variant } from './report/figures.ts';

export interface Options {
  readonly services: readonly number[];
  readonly proxies: readonly ProxyName[];
  /** Of the tools of all columns with rules of iptables. */
  readonly iptables: Variant;
  /** In each, every column has its turn. */
  readonly rounds: number;
  /** Seconds after which a start is given up. */
  readonly limit: number;
  /** Only the start, and single changes while nothing else changes. */
  readonly brief: boolean;
  /** Limit on single changes per series. */
  readonly changes: number;
  readonly json: string;
  /** Measure nothing, print the figures of the file as Markdown. */
  readonly markdown: boolean;
}

export function parseOptions(argv: readonly string[]): Options {
  return new Command('npm run bench:control --')
    .description(
      'fairlead and kube-proxy on one node of a real control plane, measured side by side',
    )
    .option(
      '--services <list>',
      'how many Services, 10 endpoints each',
      counts,
      [100, 1_000, 10_000],
    )
    .option('--proxies <list>', `columns, of ${PROXIES.join(', ')}`, listOf(PROXIES), [...PROXIES])
    .addOption(
      new Option('--iptables <variant>', 'iptables tools of fairlead and of kube-proxy')
        .choices(VARIANTS)
        .default('legacy'),
    )
    .option('--rounds <count>', 'how often each column has its turn, in rotating order', count, 1)
    .option('--limit <seconds>', 'a start that takes longer is given up', count, 300)
    .option('--changes <count>', 'single changes in each series, at most', count, 200)
    .option('--brief', 'only the start, and single changes while nothing else changes', false)
    .option('--json <file>', 'where the figures go', 'build/bench/control.json')
    .option(
      '--markdown',
      'measure nothing: print the figures of that file as tables of Markdown',
      false,
    )
    .allowExcessArguments(false)
    .parse(argv, { from: 'user' })
    .opts<Options>();
}
