// SPDX-License-Identifier: Apache-2.0
// Which commands end with 0 when they are stopped while they are still being loaded.
import { expect, test } from 'vitest';
import { isAgent } from '../../../src/cli/signals.ts';

test.each([
  ['run', true],
  ['run --manifests examples/demo', true],
  ['--log-level debug run', false],
  ['run --cleanup', false],
  ['run --init-only=true', false],
  ['run --write-config-to config.yaml', false],
  ['run --help', false],
  ['cleanup', false],
  ['', false],
])('%s: %s', (line, is) => {
  expect(isAgent(line.split(' '))).toBe(is);
});
