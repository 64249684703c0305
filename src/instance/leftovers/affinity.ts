// SPDX-License-Identifier: Apache-2.0
// Session affinity from one engine to the other: the maps of eBPF remember clients, and so do the lists of xt_recent,
// which have the same names under kube-proxy.
import { socketClients } from '../../engines/bpf/kernel/affinity/namespaces.ts';
import { withPinnedAffinity } from '../../engines/bpf/kernel/affinity/pinned.ts';
import {
  hasLists,
  maxClients,
  rememberByRules,
  rememberedByRules,
} from '../../engines/iptables/kernel/affinity/lists.ts';
import { FairleadError } from '../../errors.ts';

/** Once the maps have the Services. @returns how many entries are new there */
export const affinityFromRules = (bpfRoot: string): Promise<number> =>
  between(bpfRoot, ({ ports, remember }) => remember(rememberedByRules(ports)));

/** Once the rules have the Services, and as long as the maps have them. */
export const affinityToRules = (bpfRoot: string): Promise<number> =>
  between(bpfRoot, ({ remembered }) => rememberByRules(remembered(), maxClients()));

async function between(
  bpfRoot: string,
  carry: Parameters<typeof withPinnedAffinity<number>>[2],
): Promise<number> {
  if (!hasLists()) return 0;
  const sockets = await socketClients();
  try {
    return withPinnedAffinity(bpfRoot, sockets, carry);
  } catch (error) {
    if (error instanceof FairleadError && error.code === 'NOT_FOUND') return 0;
    throw error;
  }
}
