// SPDX-License-Identifier: Apache-2.0
// What stands before a command line so that bpf(2) fails, as with the seccomp profile of a container.
import { mkdtempSync, rmSync } from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from '../../../src/sys/exec.ts';

export interface ForbidBpf {
  with(errno: 'EPERM' | 'ENOSYS'): readonly string[];
  remove(): void;
}

export async function compileForbidBpf(): Promise<ForbidBpf> {
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-forbid-'));
  const program = join(folder, 'forbid-bpf');
  const source = new URL('forbid-bpf.c', import.meta.url).pathname;
  const { code, stderr } = await run('cc', ['-Wall', '-Werror', '-o', program, source]);
  if (code !== 0) throw new Error(stderr);
  return {
    with: (errno) => [program, `${constants.errno[errno]}`],
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
