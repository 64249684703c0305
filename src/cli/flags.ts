// SPDX-License-Identifier: Apache-2.0
// What commands other than `run` share: how they find an instance, and durations on the command line.
import { InvalidArgumentError } from 'commander';
import { parseFlagDuration } from '../config/duration.ts';
import { ownSettings } from '../config/file/fairlead-schema.ts';

const defaults = ownSettings({});
export const DEFAULT_BPF_ROOT = defaults.bpfRoot;
export const DEFAULT_RUN_DIR = defaults.runDir;

/** `10m`, `1m30s`, `250ms`, `30` (seconds) -> milliseconds, at least one. */
export function durationMs(text: string): number {
  const ms = Math.round(parseFlagDuration(text) ?? 0);
  if (ms >= 1) return ms;
  throw new InvalidArgumentError(`${text} is not a duration such as 30s, 10m, or 30 for seconds`);
}
