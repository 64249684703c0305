// SPDX-License-Identifier: Apache-2.0
// What the engines of an earlier agent may have left in the kernel.

import type { PinHolder } from '../../engines/bpf/kernel/loader/lock.ts';
import { bpfPredecessor } from '../../engines/bpf/kernel/retire/retire.ts';
import type { Predecessor } from '../../engines/predecessor.ts';
import { nftablesPredecessor } from './nftables.ts';
import { iptablesPredecessor } from './predecessor.ts';

export const allEngines = (bpfRoot: string, holder: PinHolder): readonly Predecessor[] => [
  {
    ...bpfPredecessor(bpfRoot, holder),
    handAffinity: async () => (await import('./affinity.ts')).affinityToRules(bpfRoot),
  },
  {
    ...iptablesPredecessor(holder),
    // kube-proxy's rules, too, which are no predecessor.
    handAffinity: async () => (await import('./affinity.ts')).affinityFromRules(bpfRoot),
  },
  nftablesPredecessor(holder),
];
