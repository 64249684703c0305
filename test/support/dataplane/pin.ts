// SPDX-License-Identifier: Apache-2.0
// Pins a small map at a path, as another program or version may have done.
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { run } from '../../../src/sys/exec.ts';

export async function pinMap(path: string): Promise<void> {
  mkdirSync(dirname(path), { recursive: true });
  const shape = ['type', 'array', 'key', '4', 'value', '4', 'entries', '1', 'name', 'other'];
  const { code, stderr } = await run('bpftool', ['map', 'create', path, ...shape]);
  if (code !== 0) throw new Error(`no map pinned at ${path}: ${stderr}`);
}
