// SPDX-License-Identifier: Apache-2.0
// Where the pins of an instance are, and its flags, in its run directory: commands find them by --run-dir alone, also when no
// agent runs, or one that does not answer.
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type JsonRecord, recordOrEmpty } from '../lib/json.ts';

export const instancePath = (runDir: string): string => join(runDir, 'instance.json');

/** By name, as text. */
type Flags = Readonly<Record<string, string>>;

/** Called by the agent that holds the lock of `runDir`. Throws what the file system throws. */
export function writeInstance(runDir: string, bpfRoot: string, flags: Flags = {}): void {
  const path = instancePath(runDir);
  writeFileSync(`${path}.new`, `${JSON.stringify({ bpfRoot, flags })}\n`);
  renameSync(`${path}.new`, path);
}

/** undefined: no agent has started with this run directory, or the file says something else. */
export function readBpfRoot(runDir: string): string | undefined {
  const { bpfRoot } = readInstance(runDir);
  return typeof bpfRoot === 'string' ? bpfRoot : undefined;
}

/** Those that the agent was started with; none if no agent has started there. */
export const readFlags = (runDir: string): Flags =>
  Object.fromEntries(
    Object.entries(recordOrEmpty(readInstance(runDir)['flags'])).filter(
      (entry): entry is [string, string] => typeof entry[1] === 'string',
    ),
  );

function readInstance(runDir: string): JsonRecord {
  try {
    return recordOrEmpty(JSON.parse(readFileSync(instancePath(runDir), 'utf8')));
  } catch {
    return {};
  }
}
