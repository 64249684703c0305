// SPDX-License-Identifier: Apache-2.0
// What the engines of an earlier agent may have left in the kernel.

import type { PinHolder } from '../../dataplane/bpf/loader/lock.ts';
import { bpfPredecessor } from '../../dataplane/bpf/loader/retire.ts';
import type { Predecessor } from '../../dataplane/predecessor.ts';
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
];
