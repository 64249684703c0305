// SPDX-License-Identifier: Apache-2.0
// The iptables dataplane over tables in memory: everything but the kernel and the programs.
import { IPTABLES } from '../../../../src/engines/capabilities.ts';
import type { Dataplane } from '../../../../src/engines/dataplane.ts';
import {
  createIptablesDataplane,
  type IptablesParts,
} from '../../../../src/engines/iptables/kernel/dataplane.ts';
import { familyRules } from '../../../../src/engines/iptables/kernel/family-rules.ts';
import { createRenderer } from '../../../../src/engines/iptables/rows/render.ts';
import { SYSTEM_CLOCK } from '../../../../src/sys/clock.ts';
import { DEFAULTS } from '../story-rulesets.ts';
import { type MemoryTools, memoryTools } from './tools.ts';

export interface MemoryIptables {
  readonly dataplane: Dataplane;
  readonly IPv4: MemoryTools;
  readonly IPv6: MemoryTools;
}

/** Unless a test has other parts, it never waits and never looks whether the rules are there. */
export function memoryIptables(
  parts: Partial<IptablesParts> = {},
  { IPv4, IPv6 } = { IPv4: memoryTools(), IPv6: memoryTools() },
): MemoryIptables {
  const dataplane = createIptablesDataplane({
    capabilities: IPTABLES,
    installation: { hooks: [], refusesWith: 'ECONNREFUSED', refused: [] },
    families: new Map([
      ['IPv4', familyRules(IPv4)],
      ['IPv6', familyRules(IPv6)],
    ]),
    render: createRenderer(DEFAULTS).render,
    clock: { ...SYSTEM_CLOCK, after: () => () => undefined },
    ...{ minSyncPeriodMs: 0, syncPeriodMs: 30_000 },
    generation: () => undefined,
    otherVariant: { remove: async () => [] },
    close: () => undefined,
    log: { warn: () => undefined },
    ...parts,
  });
  return { dataplane, IPv4, IPv6 };
}
