// SPDX-License-Identifier: Apache-2.0
// The capabilities of this process.
import { readFileSync } from 'node:fs';

const CAP_SYS_ADMIN = 21n;

export function hasSysAdmin(): boolean {
  const [, effective = '0'] =
    /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  return ((BigInt(`0x${effective}`) >> CAP_SYS_ADMIN) & 1n) === 1n;
}
