#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// What shows and measures fairlead on one machine: `npm run demo`, `npm run bench`, `npm run replay`. Not part of the product.
import { runProgram } from '../src/cli/program.ts';

await runProgram(process.argv.slice(2), {
  demo: async () => (await import('./commands/demo.ts')).demoCommand(),
  replay: async () => (await import('./commands/replay.ts')).replayCommand(),
  bench: async () => (await import('./commands/bench.ts')).benchCommand(),
});
