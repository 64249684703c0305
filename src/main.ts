#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// fairlead: `run` is the agent; every other command talks to its socket, to pinned maps, or to nothing.
import { isAgent, stopSignals } from './cli/signals.ts';
import { keepHeapSmall, keepMallocSmall } from './sys/process/memory.ts';

keepHeapSmall();
const args = process.argv.slice(2);
if (isAgent(args)) {
  // Before anything else is loaded, which takes a tenth of a second: an agent that is stopped meanwhile has nothing to end.
  stopSignals.catch();
  keepMallocSmall();
}
const { runProgram } = await import('./cli/program.ts');
await runProgram(args);
