// SPDX-License-Identifier: Apache-2.0
// Cgroups of probes that were killed together with the process that tries: nobody else removes them.
import { existsSync, readdirSync, rmdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

const NAME = /^fairlead-probe-([1-9]\d*)$/;
/** That of a probe in another PID namespace, whose process is not seen here, is empty for a moment only. */
const LEFT_AFTER_MS = 600_000;

export function removeLeftCgroups(root: string): void {
  for (const name of readdirSync(root)) {
    const [, pid] = NAME.exec(name) ?? [];
    if (pid === undefined || existsSync(`/proc/${pid}`)) continue;
    try {
      const path = join(root, name);
      if (Date.now() - statSync(path).mtimeMs > LEFT_AFTER_MS) rmdirSync(path);
    } catch {
      // Something is in it, or another probe has just removed it.
    }
  }
}
