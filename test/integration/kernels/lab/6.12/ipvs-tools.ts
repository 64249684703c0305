// SPDX-License-Identifier: Apache-2.0
// ipvsadm and ipset for scripts of the lab, as an environment.
import { execFileSync } from 'node:child_process';
import { packageRoot } from '../../../../../src/sys/package.ts';

export function ipvsTools(): Readonly<Record<'PATH' | 'LD_LIBRARY_PATH', string>> {
  const script = { cwd: packageRoot(), encoding: 'utf8' } as const;
  const folder = execFileSync('scripts/kernels/ipvs-tools', script).trim();
  return {
    PATH: `${folder}/sbin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`,
    LD_LIBRARY_PATH: `${folder}/lib`,
  };
}
