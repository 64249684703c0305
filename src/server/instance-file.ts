// SPDX-License-Identifier: Apache-2.0
// Where the pins of an instance are, in its run directory: commands find them by --run-dir alone, also when no agent runs.
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { recordOrEmpty } from '../lib/json.ts';

export const instancePath = (runDir: string): string => join(runDir, 'instance.json');

/** Called by the agent that holds the lock of `runDir`. Throws what the file system throws. */
export function writeInstance(runDir: string, bpfRoot: string): void {
  const path = instancePath(runDir);
  writeFileSync(`${path}.new`, `${JSON.stringify({ bpfRoot })}\n`);
  renameSync(`${path}.new`, path);
}

/** undefined: no agent has started with this run directory, or the file says something else. */
export function readBpfRoot(runDir: string): string | undefined {
  try {
    const { bpfRoot } = recordOrEmpty(JSON.parse(readFileSync(instancePath(runDir), 'utf8')));
    return typeof bpfRoot === 'string' ? bpfRoot : undefined;
  } catch {
    return undefined;
  }
}
