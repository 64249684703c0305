// SPDX-License-Identifier: Apache-2.0
// Options that commands other than `run` share, and durations on the command line.
import { type Command, InvalidArgumentError, Option } from 'commander';
import { parseFlagDuration } from '../config/duration.ts';
import { DEFAULT_BPF_ROOT, DEFAULT_RUN_DIR } from '../config/instance-paths.ts';

export const addRunDirOption = (command: Command): Command =>
  command.option('--run-dir <dir>', "directory of the agent's admin socket", DEFAULT_RUN_DIR);

export const addBpfRootOption = (command: Command): Command =>
  command.option('--bpf-root <dir>', "directory of the agent's pinned maps", DEFAULT_BPF_ROOT);

/** `10m`, `1m30s`, `250ms`, `30` (seconds) -> milliseconds, at least one. */
export function durationMs(text: string): number {
  const ms = Math.round(parseFlagDuration(text) ?? 0);
  if (ms >= 1) return ms;
  throw new InvalidArgumentError(
    `"${text}" is not a duration above 0 such as 30s, 10m, or 30 for seconds`,
  );
}

/** @param byDefault as it could be given: help says it in the same words */
export const timeoutOption = (description: string, byDefault: string): Option =>
  new Option('--timeout <duration>', description)
    .argParser(durationMs)
    .default(durationMs(byDefault), byDefault);
