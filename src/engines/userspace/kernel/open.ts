// SPDX-License-Identifier: Apache-2.0
// The userspace dataplane of a node: whether it may add addresses, and what an earlier agent has left for it to know.
import type { Logger } from '../../../log.ts';
import { SYSTEM_CLOCK } from '../../../sys/clock.ts';
import { userspaceCapabilities } from '../../capabilities.ts';
import type { Dataplane } from '../../dataplane.ts';
import { keepAddresses } from './addresses.ts';
import { createUserspaceDataplane } from './dataplane.ts';
import { createMemory } from './memory.ts';

export interface UserspaceSettings {
  readonly runDir: string;
  /** CAP_NET_ADMIN, and the wish to have Services at their own addresses. */
  readonly addsAddresses: boolean;
}

const memoryPath = (runDir: string): string => `${runDir}/userspace.json`;

/** Addresses that an agent has written down and not removed. */
export const recordedAddresses = (runDir: string): readonly string[] => [
  ...createMemory(memoryPath(runDir), SILENT).read().addresses,
];

/** @returns those that are gone */
export function removeRecorded(runDir: string): readonly string[] {
  const memory = createMemory(memoryPath(runDir), SILENT);
  const { ports, addresses } = memory.read();
  const keeper = keepAddresses(addresses);
  keeper.removeOthers([]);
  if (addresses.size > 0) memory.write({ ports, addresses: keeper.own() });
  return [...addresses].filter((address) => !keeper.own().has(address));
}

const SILENT = { warn: () => undefined };

export function openUserspaceDataplane(
  { runDir, addsAddresses }: UserspaceSettings,
  log: Pick<Logger, 'warn'>,
): Dataplane {
  const memory = createMemory(memoryPath(runDir), log);
  return createUserspaceDataplane({
    capabilities: userspaceCapabilities(addsAddresses ? 'addresses' : 'port-map'),
    installation: { hooks: [], refusesWith: 'ECONNREFUSED', refused: [] },
    clock: SYSTEM_CLOCK,
    memory,
    addresses: addsAddresses ? keepAddresses(memory.read().addresses) : undefined,
  });
}
