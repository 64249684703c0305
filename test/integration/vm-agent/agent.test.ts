// SPDX-License-Identifier: Apache-2.0
// The agent on older kernels, with devices that are modules there: in a virtual machine per kernel, clients outside reach a
// NodePort over a VLAN on a bond, with backends behind ipip, gre and geneve; by clsact filters before Linux 6.6
// (scripts/test-vm --agent), and by iptables on one without (--rules). Every check is one line on the virtual machine's console.
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const script = fileURLToPath(new URL('../../../scripts/test-vm', import.meta.url));
const TIMEOUT_MS = 1_500_000;

test.each([
  ['5.10', '--agent'],
  ['6.1', '--agent'],
  ['6.12', '--agent'],
  ['5.10', '--rules'],
])(
  'every check of the agent holds on Linux %s (%s)',
  async (kernel, checks) => {
    const argv = [checks, kernel];
    const { stdout } = await promisify(execFile)(script, argv, { timeout: TIMEOUT_MS });
    const lines = stdout.split(/\r?\n/);
    const planned = lines.flatMap((line) => /^1\.\.(\d+)$/.exec(line)?.[1] ?? []);
    expect(lines.filter((line) => line.startsWith('not ok'))).toEqual([]);
    // The TAP plan is printed last: without it, the run was incomplete.
    expect(planned, stdout.slice(-2_000)).toHaveLength(1);
    expect(lines.filter((line) => line.startsWith('ok '))).toHaveLength(Number(planned[0]));
  },
  TIMEOUT_MS,
);
