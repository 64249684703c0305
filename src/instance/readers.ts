// SPDX-License-Identifier: Apache-2.0
// The values that /metrics reads from the agent, its dataplane and its source at each scrape.
import { limitationsOf } from '../engines/limitations.ts';
import {
  type DeviceView,
  earlyViews,
  type PortConnections,
  type PortId,
  type PortTraffic,
} from '../engines/snapshot.ts';
import type {
  AgentReaders,
  ServiceConnections,
  ServicePortLabels,
  ServiceTraffic,
} from '../server/metrics/readings.ts';
import type { Source } from '../source/source.ts';
import { packageVersion } from '../sys/package.ts';
import type { HistoryFollower } from './history/open.ts';
import type { OnNode } from './on-node/looking.ts';
import type { Running } from './routes.ts';
import type { ShadowFollower } from './shadow/open.ts';

export function readersOf(
  { agent, dataplane, source }: Pick<Running, 'agent' | 'dataplane' | 'source'>,
  {
    topServices,
    onNode,
    shadow,
    history,
  }: {
    readonly topServices: number;
    readonly onNode: OnNode;
    readonly shadow?: Pick<ShadowFollower, 'view'> | undefined;
    readonly history?: Pick<HistoryFollower, 'view'> | undefined;
  },
): AgentReaders {
  return {
    version: packageVersion(),
    engine: () => dataplane.capabilities.dataplane,
    limitations: () => dataplane.dataplanes.flatMap(limitationsOf),
    findings: () => onNode.findings(),
    shadow: () => shadow?.view(),
    history: () => history?.view(),
    fallback: () => dataplane.installation.fallback,
    isReady: () => agent.state().isReady,
    plan: () => agent.state().plan,
    sourceProblems: () => source.problems(),
    tables: () => dataplane.counters().tables,
    failedEntries: () => agent.state().failed.length,
    driftTotal: () => agent.state().driftTotal,
    lastAuditAt: () => agent.state().lastAuditAt,
    watchAgesMs: () => watchAges(source),
    reasons: () => dataplane.counters().outcomes,
    staleSockets: () => dataplane.counters().staleSockets,
    earlyPaths: () => earlyPaths(dataplane.devices()),
    topServices,
    serviceTraffic: () => serviceTraffic(dataplane.counters().traffic ?? []),
    serviceConnections: () => serviceConnections(dataplane.counters().connections),
  };
}

const earlyPaths = (devices: readonly DeviceView[]): ReturnType<AgentReaders['earlyPaths']> =>
  devices.flatMap((device) =>
    earlyViews(device)
      .filter(({ state }) => state !== 'off')
      .map((view) => ({ device: device.name, ...view })),
  );

/** The same; once they are frozen, each says what it said then. */
export function freezable(readers: AgentReaders): {
  readonly readers: AgentReaders;
  readonly freeze: () => void;
} {
  let last: ReadonlyMap<string, unknown> | undefined;
  const names = Object.entries(readers).filter(isReader);
  const through = names.map(([name, read]) => [name, () => (last ? last.get(name) : read())]);
  return {
    readers: { ...readers, ...Object.fromEntries(through) },
    freeze: () => {
      last = new Map(names.map(([name, read]) => [name, lastOf(read)]));
    },
  };
}

const isReader = (entry: readonly [string, unknown]): entry is [string, () => unknown] =>
  typeof entry[1] === 'function';

/** What cannot be read has no series. A generator can be read once only. */
function lastOf(read: () => unknown): unknown {
  try {
    const value = read();
    return isGenerator(value) ? [...value] : value;
  } catch {
    return undefined;
  }
}

const isGenerator = (value: unknown): value is Generator =>
  typeof value === 'object' && value !== null && 'next' in value && Symbol.iterator in value;

function watchAges(source: Source): Readonly<Record<string, number>> {
  const watches = source.cluster?.()?.watches ?? [];
  return Object.fromEntries(
    watches.flatMap(({ kind, aliveAgeMs }) =>
      aliveAgeMs === undefined ? [] : [[kind, aliveAgeMs]],
    ),
  );
}

function* serviceConnections(all: Iterable<PortConnections>): Generator<ServiceConnections> {
  for (const { port, ...counts } of all) yield { ...labelsOf(port), ...counts };
}

function* serviceTraffic(all: Iterable<PortTraffic>): Generator<ServiceTraffic> {
  for (const { port, toBackend, toClient } of all) {
    yield { ...labelsOf(port), toBackend, toClient };
  }
}

const labelsOf = ({ namespace, name, portName, protocol, family }: PortId): ServicePortLabels => ({
  ...{ namespace, service: name, port: portName, protocol, family },
});
