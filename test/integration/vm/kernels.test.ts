// SPDX-License-Identifier: Apache-2.0
// The socket layer on older kernels: loads, attaches and serves real sockets in a virtual machine per kernel
// (scripts/kernels/test-vm). Every check is one line on the virtual machine's console.
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const script = fileURLToPath(new URL('../../../scripts/kernels/test-vm', import.meta.url));
/** Only for a virtual machine that neither computes nor ends: scripts/kernels/test-vm bounds its processor time. */
const TIMEOUT_MS = 1_800_000;

test.each(['5.10', '6.1', '6.12'])(
  'every check holds on Linux %s',
  async (kernel) => {
    const { stdout } = await promisify(execFile)(script, [kernel], { timeout: TIMEOUT_MS });
    const lines = stdout.split(/\r?\n/);
    const planned = lines.flatMap((line) => /^1\.\.(\d+)$/.exec(line)?.[1] ?? []);
    const failed = lines.filter((line) => line.startsWith('not ok') || line.startsWith('libbpf:'));
    process.stdout.write(`${lines.filter((line) => line.startsWith('# ')).join('\n')}\n`);
    expect(failed).toEqual([]);
    // The TAP plan is printed last: without it, the run was incomplete.
    expect(planned, stdout.slice(-2_000)).toHaveLength(1);
    expect(lines.filter((line) => line.startsWith('ok '))).toHaveLength(Number(planned[0]));
  },
  TIMEOUT_MS,
);
