// SPDX-License-Identifier: Apache-2.0
// The iptables engine of an earlier agent, when this agent serves with another one. Connections that its rules have
// translated are known to the kernel's connection tracking, and need no rules as long as there is one that asks for it.
import { readFileSync } from 'node:fs';
import { lockRules, type RulesHolder } from '../../dataplane/iptables/restore/instance-lock.ts';
import { programName } from '../../dataplane/iptables/restore/tools.ts';
import { OF_FAIRLEAD } from '../../dataplane/leftovers/chains.ts';
import type { Predecessor } from '../../dataplane/predecessor.ts';
import { FairleadError } from '../../errors.ts';
import { FAMILIES } from '../../model/types.ts';
import { run } from '../../sys/exec.ts';
import { scanOwnRules } from './scan.ts';

export function iptablesPredecessor(holder: RulesHolder): Predecessor {
  const removeUnneeded = async (): Promise<void> => {
    const lock = await lockRules(holder);
    try {
      const { removals } = await scanOwnRules();
      for (const { name, run } of removals) {
        const reason = await run();
        if (reason !== undefined) throw new FairleadError('RESTORE_FAILED', `${name}: ${reason}`);
      }
    } finally {
      lock.close();
    }
  };
  return {
    engine: 'iptables',
    look: async () => {
      if (!(await hasOwnChain())) return { isServing: false, isLeft: false, connections: 0 };
      const { isServing, isLeft, isNeeded } = await scanOwnRules();
      return { isServing, isLeft, connections: isNeeded ? undefined : 0 };
    },
    stopServing: removeUnneeded,
    remove: removeUnneeded,
  };
}

const LISTED = { IPv4: '/proc/net/ip_tables_names', IPv6: '/proc/net/ip6_tables_names' } as const;

/** Cheaper than to read all rules: another proxy may have a hundred thousand. Tables that do not exist are not loaded. */
async function hasOwnChain(): Promise<boolean> {
  for (const family of FAMILIES) {
    const hasLegacy = namesIn(LISTED[family]).includes('filter');
    for (const variant of hasLegacy ? (['nft', 'legacy'] as const) : (['nft'] as const)) {
      const program = programName(family, variant);
      const { code } = await run(program, ['-w', '5', '-t', 'filter', '-S', OF_FAIRLEAD]);
      if (code === 0) return true;
    }
  }
  return false;
}

function namesIn(path: string): readonly string[] {
  try {
    return readFileSync(path, 'utf8').split('\n');
  } catch {
    return [];
  }
}
