// SPDX-License-Identifier: Apache-2.0
// What stands before a command line so that bpf(2) fails, as with the seccomp profile of a container.
import { constants } from 'node:os';
import { join } from 'node:path';
import { compiled } from '../programs/compiled.ts';

export function forbidBpf(errno: 'EPERM' | 'ENOSYS'): readonly string[] {
  return [compiled(join(import.meta.dirname, 'forbid-bpf.c')), `${constants.errno[errno]}`];
}
