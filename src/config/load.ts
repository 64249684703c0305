// SPDX-License-Identifier: Apache-2.0
// Reads the file that --config names, if any, and resolves file and flags.
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { FairleadError } from '../errors.ts';
import { unreadableReason } from '../lib/unreadable.ts';
import type { FlagValues } from './flags/flags.ts';
import { resolveConfig } from './resolve.ts';
import type { Config } from './types.ts';

export interface LoadedConfig {
  readonly config: Config;
  /** For watchConfigFile; undefined without --config. */
  readonly file: { readonly path: string; readonly text: string } | undefined;
  /** As given on the command line. */
  readonly flags: FlagValues;
}

/** Throws FairleadError BAD_OPTION if the file cannot be read or is invalid. */
export function loadConfig(flags: FlagValues): LoadedConfig {
  const path = flags['config'] ?? '';
  const file = path === '' ? undefined : { path, text: read(path) };
  const config = resolveConfig({ ...(file && { file }), flags, hostname: hostname() });
  return { config, file, flags };
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new FairleadError(
      'BAD_OPTION',
      `--config ${path} cannot be read: ${unreadableReason(error)}`,
    );
  }
}
