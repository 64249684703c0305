// SPDX-License-Identifier: Apache-2.0
// The agent on devices that are modules of Debian's kernels: bonds, whose ports come and go, a VLAN on a bond, ipip, gre and geneve; by clsact
// filters before Linux 6.6. And sockets by eBPF with packets by iptables, on a kernel that has no filters for devices.
import { copyFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { packageRoot } from '../../../src/sys/package.ts';
import { compiled } from '../../support/programs/compiled.ts';
import { bootGuest, type Guest, type Kernel, onEach } from './guest.ts';

/** What the kernel has. */
const WORDS: Readonly<Record<Kernel, readonly string[]>> = {
  '5.10': [],
  '6.1': ['sweep'],
  '6.12': ['sweep', 'tcx'],
};
const PROGRAMS = ['client', 'server'].map((name) =>
  join(packageRoot(), `test/support/fixture/programs/${name}.c`),
);

/** In a network namespace and a mount namespace of their own. */
async function runChecks(guest: Guest, words: readonly string[]): Promise<string> {
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

function declareChecks(guest: Guest, output: string): void {
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

const checked = await onEach(async (guest) => ({
  guest,
  output: await runChecks(guest, WORDS[guest.kernel]),
}));
for (const [, { guest, output }] of checked) declareChecks(guest, output);

const without = await bootGuest('5.10', ['without=sch_ingress']);
afterAll(() => without.stop());
declareChecks(without, await runChecks(without, ['rules']));
