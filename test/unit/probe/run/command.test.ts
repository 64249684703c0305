// SPDX-License-Identifier: Apache-2.0
// What the command line of `fairlead probe` takes.
import { expect, test } from 'vitest';
import { probeCommand } from '../../../../src/cli/commands/probe.ts';

test('the help says how long an attempt may take', () => {
  expect(probeCommand().helpInformation()).toMatch(/maximum time of one attempt \(default: 10s\)/);
});

test('a folder that is not in a cgroup v2 hierarchy is refused before anything is tried', async () => {
  const probing = probeCommand().parseAsync(['--cgroup-root', '/no/such/folder'], { from: 'user' });
  await expect(probing).rejects.toMatchObject({
    code: 'NOT_CGROUP2',
    exitCode: 2,
    message: expect.stringMatching(
      /^--cgroup-root \/no\/such\/folder is not a directory of a cgroup v2 hierarchy: this machine has /,
    ),
  });
});
