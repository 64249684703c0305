// SPDX-License-Identifier: Apache-2.0
// `npm run demo`: runs the agent with real traffic in network namespaces, then removes everything.
import { Command } from 'commander';
import { jsonText, print } from '../../src/cli/output.ts';
import { FairleadError } from '../../src/errors.ts';
import { exitCodeOf, runDemo } from '../demo/demo.ts';
import { createScreen } from '../demo/screen.ts';
import { removeKept } from '../lab/ownership.ts';

interface DemoOptions {
  readonly json: boolean;
  readonly keep: boolean;
  readonly remove: boolean;
}

export function demoCommand(): Command {
  return new Command('demo')
    .description('simulate a node and its pods in network namespaces and run real traffic')
    .option('--json', 'print one JSON report on stdout, and progress on stderr', false)
    .option('--keep', 'keep everything running afterwards, for inspection, until Ctrl-C', false)
    .option('--remove', 'remove a demo that was kept with --keep in another terminal', false)
    .action(demo);
}

async function demo({ json, keep, remove }: DemoOptions): Promise<void> {
  if (remove) {
    const removed = await removeKept();
    if (removed.length === 0) throw new FairleadError('NOT_FOUND', 'no kept demo found');
    print(`removed ${removed.join(', ')}`);
    return;
  }
  const screen = createScreen(json ? process.stderr : process.stdout, process.env);
  await runDemo(screen, {
    isKept: keep,
    onReport: (report) => {
      if (json) print(jsonText(report));
      process.exitCode = exitCodeOf(report);
    },
  });
}
