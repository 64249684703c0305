// SPDX-License-Identifier: Apache-2.0
// What the program does first: V8's settings, and for an agent the signals that end it. Then its command is loaded.
import { isAgent, stopSignals } from './cli/signals.ts';
import { keepHeapSmall, keepMallocSmall } from './sys/process/memory.ts';

keepHeapSmall();
const args = process.argv.slice(2);
if (isAgent(args)) {
  // Before anything else is loaded, which takes a tenth of a second: an agent that is stopped meanwhile has nothing to end.
  stopSignals.catch();
  keepMallocSmall();
}
void import('./cli/program.ts').then(({ runProgram }) => runProgram(args));
