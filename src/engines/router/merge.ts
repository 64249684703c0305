// SPDX-License-Identifier: Apache-2.0
// Merges the results of several dataplanes.
import { ALGORITHM_NAMES } from '../../plan/decide/balancing.ts';
import type { ServiceKey } from '../../plan/types.ts';
import type { Capabilities, PositionCapabilities } from '../capabilities.ts';
import type { Dataplane, FailedEntry, SyncReport } from '../dataplane.ts';
import type {
  Counters,
  Fallback,
  Installation,
  PortConnections,
  PortTraffic,
  Snapshot,
} from '../snapshot.ts';

/** Starts all at once and awaits all of them; then rejects with the first error, if there was one. */
export async function allOf<T, R>(
  items: readonly T[],
  work: (item: T) => Promise<R>,
): Promise<readonly R[]> {
  const outcomes = await Promise.allSettled(items.map(work));
  return outcomes.map((result) => {
    if (result.status === 'rejected') throw result.reason;
    return result.value;
  });
}

/** They run in parallel: the duration is that of the longest. */
export const mergeReports = (reports: readonly SyncReport[]): SyncReport => ({
  applied: reports.reduce((sum, { applied }) => sum + applied, 0),
  failed: reports.flatMap(({ failed }) => failed),
  elapsedMs: Math.max(0, ...reports.map(({ elapsedMs }) => elapsedMs)),
});

export const mergeSnapshots = (snapshots: readonly Snapshot[]): Snapshot => ({
  frontends: snapshots.flatMap(({ frontends }) => frontends),
  backends: snapshots.flatMap(({ backends }) => backends),
});

export const mergeCounters = (all: readonly Counters[]): Counters => ({
  tables: all.flatMap(({ tables }) => tables),
  outcomes: sumOf(all.map(({ outcomes }) => outcomes)),
  connections: { [Symbol.iterator]: () => connectionsOf(all) },
  ...ofOne(all),
  traffic: { [Symbol.iterator]: () => trafficOf(all) },
});

/** One dataplane has sockets, and direct return. */
function ofOne(
  all: readonly Counters[],
): Pick<Counters, 'staleSockets' | 'scope' | 'cookies' | 'packetFeatures'> {
  const staleSockets = all.find((counters) => counters.staleSockets !== undefined)?.staleSockets;
  const scope = all.find((counters) => counters.scope !== undefined)?.scope;
  const cookies = all.find((counters) => counters.cookies !== undefined)?.cookies;
  const packetFeatures = all.find((counters) => counters.packetFeatures)?.packetFeatures;
  return {
    ...(staleSockets && { staleSockets }),
    ...(scope && { scope }),
    ...(cookies && { cookies }),
    ...(packetFeatures && { packetFeatures }),
  };
}

function* connectionsOf(all: readonly Counters[]): Generator<PortConnections> {
  for (const { connections } of all) yield* connections;
}

function* trafficOf(all: readonly Counters[]): Generator<PortTraffic> {
  for (const { traffic = [] } of all) yield* traffic;
}

function sumOf(all: readonly Readonly<Record<string, number>>[]): Readonly<Record<string, number>> {
  const sums: Record<string, number> = {};
  for (const counts of all) {
    for (const [name, count] of Object.entries(counts)) sums[name] = (sums[name] ?? 0) + count;
  }
  return sums;
}

/** What any of them can do. */
export const mergeCapabilities = (all: readonly Capabilities[]): Capabilities => ({
  dataplane: all.map(({ dataplane }) => dataplane).join('+'),
  families: [...new Set(all.flatMap(({ families }) => families))],
  serves: {
    pod: mergeServed(all.map(({ serves }) => serves.pod)),
    host: mergeServed(all.map(({ serves }) => serves.host)),
    outside: mergeServed(all.map(({ serves }) => serves.outside)),
  },
  changesSctpPorts: all.some(({ changesSctpPorts }) => changesSctpPorts),
  keepsLocalClients: all.some(({ keepsLocalClients }) => keepsLocalClients),
  countsConnections: all.some(({ countsConnections }) => countsConnections),
  knowsNode: all.some(({ knowsNode }) => knowsNode),
  canBypass: all.some(({ canBypass }) => canBypass),
  affinityClients: maxClients(all.map(({ affinityClients }) => affinityClients)),
  algorithms: ALGORITHM_NAMES.filter((name) =>
    all.some(({ algorithms }) => algorithms.includes(name)),
  ),
  directReturn: all.some(({ directReturn }) => directReturn),
});

const maxClients = (all: readonly (number | undefined)[]): number | undefined =>
  all.reduce((most, one) =>
    most === undefined || one === undefined ? undefined : Math.max(most, one),
  );

function mergeServed(
  all: readonly (PositionCapabilities | undefined)[],
): PositionCapabilities | undefined {
  const known = all.filter((one) => one !== undefined);
  if (known.length === 0) return undefined;
  return {
    protocols: [...new Set(known.flatMap(({ protocols }) => protocols))],
    hasSourceRanges: known.some(({ hasSourceRanges }) => hasSourceRanges),
    hasMasquerade: known.some(({ hasMasquerade }) => hasMasquerade),
  };
}

/** Location and refusal error are those of the first one. What falls back to another is not refused. */
export function mergeInstallations(
  [first, ...others]: readonly [Dataplane, ...Dataplane[]],
  fallback?: Fallback,
): Installation {
  const all = [first, ...others].map(({ installation }) => installation);
  return {
    ...first.installation,
    hooks: all.flatMap(({ hooks }) => hooks),
    iptables: all.find(({ iptables }) => iptables !== undefined)?.iptables,
    refused: fallback === undefined ? all.flatMap(({ refused }) => refused) : [],
    fallback,
  };
}

/** Of what failed, that which is as it was before. */
export const unserved = (failed: readonly FailedEntry[]): readonly FailedEntry[] =>
  failed.filter(({ isServed }) => isServed !== true);

/** undefined: something that belongs to none. */
export const unservedServices = (
  failed: readonly FailedEntry[],
): ReadonlySet<ServiceKey | undefined> => new Set(unserved(failed).map(({ service }) => service));
