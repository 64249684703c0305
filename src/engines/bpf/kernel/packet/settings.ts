// SPDX-License-Identifier: Apache-2.0
// The settings of the packet programs, in fl_packet: constants, what the first agent chose, and the node's addresses,
// which follow the plan.
import { getRandomValues } from 'node:crypto';
import type { Clock } from '../../../../lib/clock.ts';
import type { PortRange } from '../../../../lib/port-range.ts';
import type { Plan } from '../../../../plan/types.ts';
import { SYSTEM_CLOCK } from '../../../../sys/clock.ts';
import { localPortRange, reservedPorts } from '../../../../sys/local-ports.ts';
import type { BpfMap } from '../../../../sys/native.ts';
import { encodeU32 } from '../../layout/layout.ts';
import type { Features } from '../../layout/packet-layout.ts';
import {
  decodeKeptSettings,
  encodePacketSettings,
  type KeptSettings,
  NEVER_RESETS,
  PACKET_SIZE,
  type PacketSettings,
} from '../../layout/packet-layout.ts';
import { portsBeside, writeKeptPorts } from '../../snat/ports.ts';
import type { ArrayTable } from '../../state/tables.ts';

export const DEFAULT_SETTINGS: Omit<
  PacketSettings,
  | keyof KeptSettings
  | ('nodeAddress' | 'resetGone' | 'answerPing' | 'timeoutSeconds')
  | ('snatPorts' | 'localPorts' | 'features')
> = {
  answersPerSecond: 1000,
};

/** As long as kube-proxy has conntrack keep a silent TCP connection. */
const TAKEOVER_SECONDS = 86_400;

/** Nothing tells that somebody has set a sysctl: both are read with a sync, but not with each of many. */
const SYSCTLS_MS = 1_000;

interface FollowedSettings {
  /** Follows the node's addresses, and its range of local ports. */
  readonly node: (node: Plan['node']) => void;
  /** What begins is left to rules, or served again; until the first call as the last agent had it. */
  readonly leaveNew: (isLeft: boolean) => void;
}

/** Writes the settings. */
export function followSettings(
  map: BpfMap,
  /** fl_kept_port. */
  keptPorts: ArrayTable,
  {
    resetsTcp: resetGone,
    answersPing: answerPing,
    timeouts: timeoutSeconds,
    features,
    hasFormer,
  }: {
    readonly resetsTcp: boolean;
    readonly answersPing: boolean;
    readonly timeouts: PacketSettings['timeoutSeconds'];
    readonly features: Features;
    /** Another proxy may have begun connections, if this agent is the first. */
    readonly hasFormer: boolean;
  },
  {
    readLocalPorts = localPortRange,
    readReservedPorts = reservedPorts,
    clock = SYSTEM_CLOCK,
  }: {
    readonly readLocalPorts?: () => PortRange;
    readonly readReservedPorts?: () => readonly PortRange[];
    readonly clock?: Pick<Clock, 'monotonicMs'>;
  } = {},
): FollowedSettings {
  let kept = keptOrFirst(keptIn(map), hasFormer);
  const readSysctls = () => ({ local: readLocalPorts(), reserved: readReservedPorts() });
  const ports = atMostEach(SYSCTLS_MS, readSysctls, clock);
  let last: string | undefined;
  let node: PacketSettings['nodeAddress'] | undefined;
  const write = (nodeAddress: PacketSettings['nodeAddress']): void => {
    node = nodeAddress;
    const { leaveNew } = kept;
    const { local, reserved } = ports();
    const following = { nodeAddress, ...portsBeside(local), leaveNew };
    const text = JSON.stringify([following, reserved]);
    if (text === last) return;
    writeKeptPorts(keptPorts, reserved);
    const chosen = { timeoutSeconds, resetGone, answerPing, features };
    const settings = { ...DEFAULT_SETTINGS, ...kept, ...following, ...chosen };
    map.put(encodeU32(0), encodePacketSettings(settings));
    last = text;
  };
  return {
    node: ({ addresses: { IPv4, IPv6 } }) =>
      write({ ...(IPv4 !== undefined && { IPv4 }), ...(IPv6 !== undefined && { IPv6 }) }),
    leaveNew: (leaveNew) => {
      kept = { ...kept, leaveNew };
      // Before the first sync nothing is served.
      if (node !== undefined) write(node);
    },
  };
}

/** What was read last, if that was less than so long ago. */
function atMostEach<T>(
  periodMs: number,
  read: () => T,
  { monotonicMs }: Pick<Clock, 'monotonicMs'>,
): () => T {
  let last: { readonly value: T; readonly atMs: number } | undefined;
  return () => {
    const atMs = monotonicMs();
    if (last === undefined || atMs - last.atMs >= periodMs) last = { value: read(), atMs };
    return last.value;
  };
}

const keptIn = (map: BpfMap): KeptSettings | undefined =>
  decodeKeptSettings(map.get(encodeU32(0)) ?? new Uint8Array(PACKET_SIZE.packet_settings));

/** What the settings of an earlier agent say about connections that the maps do not know. */
export type FormerConnections = 'known' | 'unknown' | 'of another engine';

export function formerConnections(map: BpfMap): FormerConnections {
  const kept = keptIn(map);
  if (kept === undefined) return 'unknown';
  return kept.resetUnknownFrom === NEVER_RESETS ? 'of another engine' : 'known';
}

/**
 * Connections that an earlier proxy began are known to conntrack alone, and older than the maps, but not than the
 * node's last boot.
 */
function firstSettings(hasFormer: boolean): KeptSettings {
  const now = Number(process.hrtime.bigint() / 1_000_000_000n);
  return {
    secret: randomSecret(),
    resetUnknownFrom: hasFormer ? now + Math.min(now, TAKEOVER_SECONDS) : now,
    leaveNew: false,
  };
}

/** After another engine had its place, connections are unknown to the maps again. */
function keptOrFirst(kept: KeptSettings | undefined, hasFormer: boolean): KeptSettings {
  if (kept === undefined) return firstSettings(hasFormer);
  return kept.resetUnknownFrom === NEVER_RESETS
    ? { ...firstSettings(true), secret: kept.secret }
    : kept;
}

/** Never 0, which stands for none. */
const randomSecret = (): bigint => (getRandomValues(new BigUint64Array(1))[0] ?? 0n) | 1n;
