// SPDX-License-Identifier: Apache-2.0
// The userspace dataplane of a node: whether it may add addresses, and what an earlier agent has left for it to know.

import type { Clock } from '../../../lib/clock.ts';
import type { Logger } from '../../../log.ts';
import { SYSTEM_CLOCK } from '../../../sys/clock.ts';
import { isWithoutAddon } from '../../../sys/native.ts';
import { limitOfFiles } from '../../../sys/process/files.ts';
import { userspaceCapabilities } from '../../capabilities.ts';
import type { Dataplane } from '../../dataplane.ts';
import { keepAddresses } from './addresses.ts';
import { createUserspaceDataplane } from './dataplane.ts';
import { FILES_OF, type Files, filesOf, leftForSockets, type Shortage } from './files.ts';
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

export async function openUserspaceDataplane(
  { runDir, addsAddresses }: UserspaceSettings,
  log: Pick<Logger, 'warn'>,
): Promise<Dataplane> {
  const files = filesOf(await limitOfFiles());
  const memory = createMemory(memoryPath(runDir), log);
  const { listenTcp, end, slow } = fastestTcp(files);
  // Netlink is the addon's.
  const isAble = addsAddresses && slow === undefined;
  return createUserspaceDataplane({
    capabilities: userspaceCapabilities(isAble ? 'addresses' : 'port-map', slow),
    installation: { hooks: [], refusesWith: 'ECONNREFUSED', refused: [] },
    clock: SYSTEM_CLOCK,
    memory,
    listenTcp,
    endTcp: end,
    files,
    onShed: warnSometimes(log, files, SYSTEM_CLOCK),
    addresses: isAble ? keepAddresses(memory.read().addresses) : undefined,
  });
}

/** By Node's streams where the addon does not load, as on another system than Linux. */
function fastestTcp({ limit }: Files): Partial<RelayedTcp> & {
  readonly listenTcp: ListenTcp;
  readonly slow?: string;
} {
  try {
    return openRelayedTcp({ mostConnections: Math.floor(leftForSockets(limit) / FILES_OF.TCP) });
  } catch (error) {
    if (!isWithoutAddon(error)) throw error;
    return { listenTcp: streamedTcp, slow: error.message };
  }
}

const WARN_EVERY_MS = 60_000;

const SHORTAGES = {
  files: {
    msg: 'connections are refused: too many files are open',
    advice: "raise the limit of open files (ulimit -n, systemd's LimitNOFILE), two for each",
  },
  ports: {
    msg: 'connections are refused: no local port is free for a backend',
    advice: 'widen net.ipv4.ip_local_port_range',
  },
} as const satisfies Record<Shortage, object>;

/** At once, then once a minute with how many there were. */
function warnSometimes(
  log: Pick<Logger, 'warn'>,
  { limit }: Files,
  { monotonicMs }: Pick<Clock, 'monotonicMs'>,
): (why: Shortage) => void {
  const seen = { files: { refused: 0, nextMs: 0 }, ports: { refused: 0, nextMs: 0 } };
  return (why) => {
    const one = seen[why];
    one.refused += 1;
    const nowMs = monotonicMs();
    if (nowMs < one.nextMs) return;
    const { msg, advice } = SHORTAGES[why];
    log.warn({ refused: one.refused, ...(why === 'files' && { limit }), advice }, msg);
    one.nextMs = nowMs + WARN_EVERY_MS;
    one.refused = 0;
  };
}
