// SPDX-License-Identifier: Apache-2.0
// `fairlead demo`: shows the real agent and real connections on this machine, then removes every trace.
import { Command } from 'commander';
import { exitCodeOf, runDemo } from '../demo/demo.ts';
import { createScreen } from '../demo/screen.ts';
import { jsonText, print } from './output.ts';

interface DemoOptions {
  readonly json: boolean;
}

export function demoCommand(): Command {
  return new Command('demo')
    .description('a node and its pods as namespaces of this machine: see traffic balanced and kept')
    .option('--json', 'print one JSON report on stdout and talk on stderr', false)
    .action(demo);
}

async function demo({ json }: DemoOptions): Promise<void> {
  const screen = createScreen(json ? process.stderr : process.stdout, process.env);
  const report = await runDemo(screen);
  if (json) print(jsonText(report));
  process.exitCode = exitCodeOf(report);
}
