#!/usr/bin/env -S MALLOC_TRIM_THRESHOLD_=131072 node --max-semi-space-size=2 --heap-growing-percent=35 --liftoff-only
// SPDX-License-Identifier: Apache-2.0
// fairlead: `run` is the agent; every other command talks to its socket, to pinned maps, or to nothing. The flags above
// keep the heap close to what is alive in it: an agent shares its node with those it works for (ADR 12).
import { isAgent, stopSignals } from './cli/signals.ts';

const args = process.argv.slice(2);
// Before anything is loaded, which takes a tenth of a second: an agent that is stopped meanwhile has nothing to end.
if (isAgent(args)) stopSignals.catch();
const { runProgram } = await import('./cli/program.ts');
await runProgram(args);
