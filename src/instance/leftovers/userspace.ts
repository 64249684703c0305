// SPDX-License-Identifier: Apache-2.0
// The userspace engine of an earlier agent, when this agent serves with another one: the addresses of Services that it has added to
// the loopback device. An agent that has handed over removes them at its end, with which its connections end.

import type { Predecessor } from '../../engines/predecessor.ts';
import { recordedAddresses, removeRecorded } from '../../engines/userspace/kernel/open.ts';
import { listenersOf } from '../../sys/netlink/listeners.ts';

export const userspacePredecessor = (runDir: string): Predecessor => ({
  engine: 'userspace',
  addresses: () => recordedAddresses(runDir),
  look: async () => {
    const addresses = new Set(recordedAddresses(runDir));
    if (addresses.size === 0) return { isServing: false, isLeft: false, connections: 0 };
    const isThere = listenersOf(['TCP', 'UDP']).some(({ address }) => addresses.has(address));
    return { isServing: false, isLeft: true, connections: isThere ? undefined : 0 };
  },
  held: async () => [],
  stopServing: async () => undefined,
  remove: async () => void removeRecorded(runDir),
});
