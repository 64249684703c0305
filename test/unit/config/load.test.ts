// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { loadConfig } from '../../../src/config/load.ts';
import { HEAD, problemsOf } from './configs.ts';

test('the file of --config is read, and its text is kept for the watcher', () => {
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-load-'));
  const path = join(folder, 'c.yaml');
  const text = `${HEAD}clusterCIDR: 10.0.0.0/8\n`;
  writeFileSync(path, text);
  const { config, file } = loadConfig({ config: path });
  expect(config.plan.clusterCidrs).toEqual(['10.0.0.0/8']);
  expect(file).toEqual({ path, text });
  writeFileSync(path, `${text}x: 1\n`);
  expect(problemsOf(() => loadConfig({ config: path }))).toEqual([
    `${path}:4: x: unknown field: check its spelling and its section`,
  ]);
  rmSync(folder, { recursive: true });
});

test('a missing file is a usage error that names it', () => {
  expect(problemsOf(() => loadConfig({ config: '/nowhere/c.yaml' }))).toEqual([
    '--config /nowhere/c.yaml cannot be read: it does not exist: correct the path, or mount the file',
  ]);
  expect(loadConfig({}).file).toBeUndefined();
});
