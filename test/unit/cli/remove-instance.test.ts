// SPDX-License-Identifier: Apache-2.0
// Every file that an instance leaves on disk is listed and removed.
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { listInstance, partsText, removeInstance } from '../../../src/cli/remove-instance.ts';
import { lastGoodPath } from '../../../src/config/instance-paths.ts';
import { serveSocket } from '../../../src/server/admin-socket.ts';
import { writeRemembered } from '../../../src/source/apiserver/transport/remembered.ts';
import { keeperOf } from '../../../src/source/manifests/last-good/keeper.ts';
import { SYSTEM_CLOCK } from '../../../src/sys/clock.ts';

const NO_RULES = { parts: [], kept: [] };

test('every file of a run directory is found and removed', async () => {
  const runDir = mkdtempSync(join(tmpdir(), 'run-'));
  const socket = await serveSocket(runDir, {});
  await writeRemembered(runDir, ['https://192.0.2.1:6443']);
  const path = lastGoodPath(runDir);
  const keeper = keeperOf({ path, folder: '/', clock: SYSTEM_CLOCK } as never)(() => []);
  keeper.changed();
  keeper.close();
  // Of an agent that was killed.
  writeFileSync(`${path}.new`, '');
  const paths = { runDir, bpfRoot: join(runDir, 'nowhere') };
  expect(
    listInstance(paths, () => NO_RULES)
      .files.map((path) => path.slice(runDir.length + 1))
      .sort(),
  ).toEqual(readdirSync(runDir).sort());
  expect(partsText(removeInstance(paths, () => NO_RULES))).toBe('4 files');
  expect(readdirSync(runDir)).toEqual([]);
  socket.close();
  rmSync(runDir, { recursive: true });
});

test.each([
  [{ links: [], maps: [], rules: NO_RULES, files: [], addresses: [] }, ''],
  [
    {
      ...{ links: ['a'], maps: ['b', 'c'], files: [], addresses: [] },
      rules: { ...NO_RULES, parts: [{ table: 'nat of iptables-nft', chains: 3, jumps: 3 }] },
    },
    '1 link, 2 maps, 3 chains',
  ],
  [
    { links: [], maps: [], files: ['f'], addresses: ['192.0.2.10', '192.0.2.11'], rules: NO_RULES },
    '1 file, 2 addresses',
  ],
])('%j in words', (parts, text) => {
  expect(partsText(parts)).toBe(text);
});
