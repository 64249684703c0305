// SPDX-License-Identifier: Apache-2.0
// Runs checks.mjs in a virtual machine, and declares a test here for each of its checks.
import { copyFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { packageRoot } from '../../../../src/sys/package.ts';
import { compiled } from '../../../support/programs/compiled.ts';
import type { Guest } from '../guest.ts';

const PROGRAMS = ['client', 'server'].map((name) =>
  join(packageRoot(), `test/support/fixture/programs/${name}.c`),
);

/** In a network namespace and a mount namespace of their own. */
export async function runChecks(guest: Guest, words: readonly string[]): Promise<string> {
  for (const source of PROGRAMS) {
    copyFileSync(compiled(source), join(guest.folder, basename(source, '.c')));
  }
  const checks = ['test/integration/kernels/devices/checks.mjs', guest.folder, ...words];
  const { output } = await guest.run(
    'devices',
    ['unshare --net --mount node', ...checks].join(' '),
  );
  return output;
}

export function declareChecks(guest: Guest, output: string): void {
  const lines = output.split('\n');
  describe(`${guest.name}: devices`, () => {
    for (const line of lines) {
      const [, not, name = '', saw] = /^(not )?ok (.*?)(?:: (.*))?$/.exec(line) ?? [];
      if (name === '') continue;
      test(name, () => expect(not, saw).toBeUndefined());
    }
    test('all was checked', () => {
      const [, count] = /^1\.\.(\d+)$/m.exec(output) ?? [];
      expect(count, output.slice(-4_000)).toBeDefined();
      expect(lines.filter((line) => /^(?:not )?ok /.test(line))).toHaveLength(Number(count));
    });
  });
}
