// SPDX-License-Identifier: Apache-2.0
// Reads the folder of the CNI's configurations, in the order in which container runtimes do (libcni's ConfFiles).
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { reasonOf } from '../../errors.ts';
import { recordOrEmpty } from '../../lib/json.ts';
import type { CniFile, CniFiles } from '../facts.ts';

/** Throws if the folder is there and cannot be read. */
export function readCni(folder: string): CniFiles {
  const names = namesIn(folder);
  const files = names
    ?.filter((name) => /\.(conf|conflist|json)$/.test(name))
    .sort()
    .map((name) => fileOf(folder, name));
  return { folder, files };
}

function namesIn(folder: string): readonly string[] | undefined {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

function fileOf(folder: string, file: string): CniFile {
  try {
    const plugins = pluginsIn(JSON.parse(readFileSync(join(folder, file), 'utf8')));
    return plugins.length > 0
      ? { file, plugins }
      : { file, plugins, problem: 'it names no plugin (type, or plugins[].type)' };
  } catch (error) {
    return { file, plugins: [], problem: reasonOf(error) };
  }
}

/** A list has plugins, a single configuration is one. */
function pluginsIn(content: unknown): readonly string[] {
  const { plugins, type } = recordOrEmpty(content);
  const all: readonly unknown[] = Array.isArray(plugins) ? plugins : [{ type }];
  return all
    .map((one) => recordOrEmpty(one)['type'])
    .filter((name): name is string => typeof name === 'string');
}
