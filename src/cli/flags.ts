// SPDX-License-Identifier: Apache-2.0
// Options that commands other than `run` share, and durations on the command line.
import { type Command, InvalidArgumentError, Option } from 'commander';
import { parseFlagDuration } from '../config/duration.ts';
import { DEFAULT_BPF_ROOT, DEFAULT_RUN_DIR } from '../config/instance-paths.ts';
import { FairleadError } from '../errors.ts';
import { readBpfRoot } from '../server/instance-file.ts';

export const addRunDirOption = (command: Command): Command =>
  command.option('--run-dir <dir>', "directory of the agent's admin socket", DEFAULT_RUN_DIR);

/**
 * For a command with --run-dir, where an agent has noted its --bpf-root: that is the default.
 * @param asksFirst it reads pins only if no agent answers, which may be of a version that notes nothing
 */
export const addBpfRootOption = (
  command: Command,
  { asksFirst = false }: { readonly asksFirst?: boolean } = {},
): Command =>
  command
    .option(
      '--bpf-root <dir>',
      "directory of the agent's pinned maps (default: that of the agent of --run-dir)",
      DEFAULT_BPF_ROOT,
    )
    .hook('preAction', (_, action) => findBpfRoot(action, asksFirst));

/** Throws NOT_FOUND if a run directory is named in which no agent has started. */
function findBpfRoot(command: Command, asksFirst: boolean): void {
  if (command.getOptionValueSource('bpfRoot') !== 'default') return;
  const runDir: string = command.opts()['runDir'];
  const noted = readBpfRoot(runDir);
  if (noted !== undefined) command.setOptionValue('bpfRoot', noted);
  else if (!asksFirst && command.getOptionValueSource('runDir') !== 'default')
    throw new FairleadError(
      'NOT_FOUND',
      `no agent has started with --run-dir ${runDir}: name the --run-dir of one that has, or its --bpf-root`,
    );
}

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
