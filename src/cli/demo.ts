// SPDX-License-Identifier: Apache-2.0
// `fairlead demo`: shows the real agent and real connections on this machine, then removes every trace.
import { Command } from 'commander';
import { exitCodeOf, runDemo } from '../demo/demo.ts';
import { createScreen } from '../demo/screen.ts';
import { FairleadError } from '../errors.ts';
import { removeKept } from '../lab/ownership.ts';
import { jsonText, print } from './output.ts';

interface DemoOptions {
  readonly json: boolean;
  readonly keep: boolean;
  readonly remove: boolean;
}

export function demoCommand(): Command {
  return new Command('demo')
    .description('show a node and its pods, made of namespaces of this machine, with real traffic')
    .option('--json', 'print one JSON report on stdout, and progress on stderr', false)
    .option('--keep', 'leave everything up afterwards, to look around in, until Ctrl-C', false)
    .option('--remove', 'remove what demo --keep left up in another terminal', false)
    .action(demo);
}

async function demo({ json, keep, remove }: DemoOptions): Promise<void> {
  if (remove) {
    const removed = await removeKept();
    if (removed.length === 0) throw new FairleadError('NOT_FOUND', 'no demo is kept up');
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
