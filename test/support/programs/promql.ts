// SPDX-License-Identifier: Apache-2.0
// Evaluates the alerts of the chart on scrapes of live agents, with Prometheus' own engine.
import { fileURLToPath } from 'node:url';
import { run } from '../../../src/sys/exec.ts';
import { type Prepared, prepareGoProgram } from './go.ts';

const RULES = fileURLToPath(
  new URL('../../../deploy/helm/fairlead/files/rules.yaml', import.meta.url),
);

export const preparePromql = (): Promise<Prepared> =>
  prepareGoProgram({
    name: 'promql',
    files: ['main.go', 'go.mod', 'go.sum'],
    target: '.',
    what: 'the engine of Prometheus',
  });

/** Alert -> seconds of this state after which it fires. */
export type Firing = Readonly<Record<string, number>>;

/**
 * @param states by name, pages in the order they were scraped; the last page is what lasts
 * @param lastAtMs when the last pages were scraped, ms since the epoch
 */
export async function evaluateAlerts(
  program: string,
  states: Readonly<Record<string, readonly string[]>>,
  lastAtMs: number,
): Promise<Readonly<Record<string, Firing>>> {
  const stdin = JSON.stringify({ rules: RULES, states, lastAtMs });
  const { code, stdout, stderr } = await run(program, [], { stdin });
  if (code !== 0) throw new Error(`promql: code ${code}: ${stderr}`);
  return JSON.parse(stdout);
}

/**
 * How many series with a number each query has.
 * @param pages of one agent, 15 s apart, in the order they were scraped
 */
export async function countSeries(
  program: string,
  queries: readonly string[],
  pages: readonly string[],
): Promise<Readonly<Record<string, number>>> {
  const stdin = JSON.stringify({ queries, states: { here: pages }, lastAtMs: Date.now() });
  const { code, stdout, stderr } = await run(program, [], { stdin });
  if (code !== 0) throw new Error(`promql: code ${code}: ${stderr}`);
  return JSON.parse(stdout).here;
}
