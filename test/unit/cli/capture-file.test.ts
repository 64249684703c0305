// SPDX-License-Identifier: Apache-2.0
// Captures on disk are for their owner alone.
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { readCapture, writeCapture } from '../../../src/cli/capture/file.ts';
import { allStories, captureOf } from '../capture/captures.ts';

test.each(['a new file', 'one that others can read'])('%s: only its owner reads it', (which) => {
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-capture-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'one.capture');
  if (which !== 'a new file') writeFileSync(path, 'x'.repeat(1_000_000), { mode: 0o644 });
  const capture = captureOf(allStories()[0]!);
  expect(writeCapture(path, capture)).toBe(statSync(path).size);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(readCapture(path)).toEqual(capture);
});
