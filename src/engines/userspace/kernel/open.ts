// SPDX-License-Identifier: Apache-2.0
// The userspace dataplane of a node: whether it may add addresses, and what an earlier agent has left for it to know.

import type { Clock } from '../../../lib/clock.ts';
import type { Logger } from '../../../log.ts';
import { SYSTEM_CLOCK } from '../../../sys/clock.ts';
import { isWithoutAddon } from '../../../sys/native.ts';
import { userspaceCapabilities } from '../../capabilities.ts';
import type { Dataplane } from '../../dataplane.ts';
import { keepAddresses } from './addresses.ts';
import { createUserspaceDataplane } from './dataplane.ts';
import { createMemory } from './memory.ts';
import { openRelayedTcp, type RelayedTcp } from './relayed-tcp.ts';
import { type ListenTcp, streamedTcp } from './tcp.ts';

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
  const { listenTcp, end, slow } = fastestTcp();
  // Netlink is the addon's.
  const isAble = addsAddresses && slow === undefined;
  return createUserspaceDataplane({
    capabilities: userspaceCapabilities(isAble ? 'addresses' : 'port-map', slow),
    installation: { hooks: [], refusesWith: 'ECONNREFUSED', refused: [] },
    clock: SYSTEM_CLOCK,
    memory,
    listenTcp,
    endTcp: end,
    onShed: warnSometimes(log, SYSTEM_CLOCK),
    addresses: isAble ? keepAddresses(memory.read().addresses) : undefined,
  });
}

/** By Node's streams where the addon does not load, as on another system than Linux. */
function fastestTcp(): Partial<RelayedTcp> & {
  readonly listenTcp: ListenTcp;
  readonly slow?: string;
} {
  try {
    return openRelayedTcp();
  } catch (error) {
    if (!isWithoutAddon(error)) throw error;
    return { listenTcp: streamedTcp, slow: error.message };
  }
}

const WARN_EVERY_MS = 60_000;

/** At once, then once a minute with how many there were. */
function warnSometimes(
  log: Pick<Logger, 'warn'>,
  { monotonicMs }: Pick<Clock, 'monotonicMs'>,
): (most: number) => void {
  let reset = 0;
  let warnedMs = Number.NEGATIVE_INFINITY;
  return (most) => {
    reset += 1;
    if (monotonicMs() - warnedMs < WARN_EVERY_MS) return;
    const advice = "raise the limit of open files (ulimit -n, systemd's LimitNOFILE), two for each";
    log.warn({ reset, most, advice }, 'connections are reset: too many are open');
    warnedMs = monotonicMs();
    reset = 0;
  };
}
