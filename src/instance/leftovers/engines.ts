// SPDX-License-Identifier: Apache-2.0
// What the engines of an earlier agent may have left in the kernel.

import type { PinHolder } from '../../engines/bpf/kernel/loader/lock.ts';
import { bpfPredecessor } from '../../engines/bpf/kernel/retire/retire.ts';
import { lockOrShare, type RulesHolder } from '../../engines/iptables/kernel/instance-lock.ts';
import { OF_FAIRLEAD } from '../../engines/kube-proxy/chains.ts';
import type { Predecessor } from '../../engines/predecessor.ts';
import { FairleadError } from '../../errors.ts';
import { FAMILIES } from '../../model/types.ts';
import { hasLegacyTable, mayHaveChain } from '../../sys/netfilter.ts';
import { nftablesPredecessor } from './nftables.ts';
import type { OwnRules } from './scan.ts';

export const allEngines = (bpfRoot: string, holder: PinHolder): readonly Predecessor[] => [
  {
    ...bpfPredecessor(bpfRoot, holder),
    handAffinity: () => handAffinity(bpfRoot, 'maps'),
  },
  {
    ...iptablesPredecessor(holder),
    // kube-proxy's, too, which is no predecessor.
    handAffinity: () => handAffinity(bpfRoot, ['lists', 'kube-proxy']),
  },
  {
    ...nftablesPredecessor(holder),
    handAffinity: () => handAffinity(bpfRoot, ['fairlead', 'kube-proxy']),
  },
];

type HandAffinity = typeof import('./affinity.ts')['handAffinity'];

const handAffinity: HandAffinity = async (...from) =>
  (await import('./affinity.ts')).handAffinity(...from);

// The iptables engine of an earlier agent, when this agent serves with another one. Connections that its rules have
// translated are known to the kernel's connection tracking, and need no rules as long as there is one that asks for it.
function iptablesPredecessor(holder: RulesHolder): Predecessor {
  const removeUnneeded = async (): Promise<void> => {
    const lock = await lockOrShare(holder);
    try {
      const { removals } = await scanned();
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
      if (!mayHaveRules()) return { isServing: false, isLeft: false, connections: 0 };
      const { isServing, isLeft, isNeeded } = await scanned();
      return { isServing, isLeft, connections: isNeeded ? undefined : 0 };
    },
    held: async () => {
      if (!mayHaveRules()) return [];
      const { heldByOwnRules } = await import('./scan.ts');
      return heldByOwnRules();
    },
    stopServing: removeUnneeded,
    remove: removeUnneeded,
  };
}

/** Cheap, because each start asks: it runs no program, and loads nothing that runs one. */
const mayHaveRules = (): boolean =>
  FAMILIES.some(
    (family) =>
      mayHaveChain(family, 'filter', OF_FAIRLEAD) ||
      mayHaveChain(family, 'nat', OF_FAIRLEAD) ||
      hasLegacyTable(family, 'filter') ||
      hasLegacyTable(family, 'nat'),
  );

async function scanned(): Promise<OwnRules> {
  const { scanOwnRules } = await import('./scan.ts');
  return scanOwnRules();
}
