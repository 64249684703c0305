// SPDX-License-Identifier: Apache-2.0
// The rows of `fairlead connections`. A node may have a million connections, so no more of them are kept than are
// shown, and only those are read in full.
import type {
  Connection,
  ConnectionBackendState,
  ConnectionOrigin,
  ConnectionState,
  ConnectionView,
} from '../engines/connections.ts';
import type { Traffic } from '../engines/snapshot.ts';

export interface ConnectionRow {
  readonly key: string;
  /** '' if its Service is gone or not known. */
  readonly namespace: string;
  readonly name: string;
  readonly port: string;
  readonly protocol: string;
  readonly family: string;
  readonly origin: ConnectionOrigin;
  readonly client: string;
  readonly frontend: string;
  readonly backend: string;
  readonly snat: string | undefined;
  /** Its requests go in Geneve to the backend's node, which answers the client: what it answers is not seen here. */
  readonly returnsDirectly?: true;
  readonly state: ConnectionState;
  readonly backendState: ConnectionBackendState;
  readonly ageSeconds: number | undefined;
  readonly idleSeconds: number | undefined;
  readonly toBackend: Traffic | undefined;
  readonly toClient: Traffic | undefined;
  /** Both ways: since the previous reading, of the first one since it began; undefined if not known. */
  readonly perSecond: Traffic | undefined;
}

/** `stale`: its backend is gone. */
export const STATE_FILTERS = [
  ...['new', 'established', 'half-closed', 'closed', 'open'],
  'stale',
] as const;

export interface ConnectionFilter {
  readonly matches: (connection: Connection) => boolean;
  /** undefined: all. */
  readonly states: readonly string[] | undefined;
  readonly limit: number;
}

export interface ConnectionList {
  readonly rows: readonly ConnectionRow[];
  /** How many more there are. */
  readonly leftOut: number;
}

interface Candidate {
  readonly connection: Connection;
  readonly order: string;
}

/** Sorting a few at a time would cost more than keeping them. */
const FEWEST_MERGED = 1000;

export const isStale = ({ backendState }: Pick<Connection, 'backendState'>): boolean =>
  backendState === 'gone';

/**
 * By Service, port, frontend and client; the first `limit` of them. Memory: twice the limit, however many there are.
 * @param nowSeconds of CLOCK_MONOTONIC
 */
export function listConnections(
  all: Iterable<Connection>,
  filter: ConnectionFilter,
  nowSeconds: number,
): ConnectionList {
  const { matches, limit } = filter;
  let first: readonly Candidate[] = [];
  let further: Candidate[] = [];
  let total = 0;
  const merge = (): void => {
    first = [...first, ...further].sort(byOrder).slice(0, limit);
    further = [];
  };
  for (const connection of all) {
    if (!matches(connection) || !hasState(connection, filter)) continue;
    total += 1;
    const order = orderOf(connection);
    const last = first[limit - 1];
    if (last !== undefined && order > last.order) continue;
    further.push({ connection, order });
    if (further.length >= Math.max(limit, FEWEST_MERGED)) merge();
  }
  merge();
  const rows = first.flatMap(({ connection }) => {
    const view = connection.read();
    return view === undefined ? [] : [rowOf(connection, view, nowSeconds)];
  });
  return { rows, leftOut: total - first.length };
}

function hasState(connection: Connection, { states }: ConnectionFilter): boolean {
  if (states === undefined || (isStale(connection) && states.includes('stale'))) return true;
  if (states.every((state) => state === 'stale')) return false;
  const view = connection.read();
  return view !== undefined && states.includes(view.state);
}

function byOrder(a: Candidate, b: Candidate): number {
  if (a.order !== b.order) return a.order < b.order ? -1 : 1;
  return a.connection.key < b.connection.key ? -1 : 1;
}

/** After every name. */
const NO_NAME = '\u{ffff}';

function orderOf({ port, protocol, order }: Connection): string {
  const { namespace, name, portName } = port ?? { namespace: NO_NAME, name: '', portName: '' };
  return `${namespace}/${name}/${portName}/${protocol}/${order}`;
}

export function rowOf(
  connection: Connection,
  view: ConnectionView,
  nowSeconds: number,
): ConnectionRow {
  const { key, port, protocol, family, origin, client, frontend, backend } = connection;
  const { bornSeconds, seenSeconds, state, snat, toBackend, toClient } = view;
  const since = (seconds: number | undefined): number | undefined =>
    seconds === undefined ? undefined : Math.max(0, Math.floor(nowSeconds - seconds));
  const ageSeconds = since(bornSeconds);
  return {
    key,
    namespace: port?.namespace ?? '',
    name: port?.name ?? '',
    port: port?.portName ?? '',
    ...{ protocol, family, origin, client, frontend, backend, snat, state },
    ...(view.returnsDirectly && { returnsDirectly: true as const }),
    backendState: connection.backendState,
    ageSeconds,
    idleSeconds: since(seenSeconds),
    ...{ toBackend, toClient },
    perSecond: rateOf(bothWays({ toBackend, toClient }), ageSeconds),
  };
}

type Counted = Pick<ConnectionRow, 'toBackend' | 'toClient'>;

function bothWays({ toBackend, toClient }: Counted): Traffic | undefined {
  if (toBackend === undefined && toClient === undefined) return undefined;
  return {
    packets: (toBackend?.packets ?? 0) + (toClient?.packets ?? 0),
    bytes: (toBackend?.bytes ?? 0) + (toClient?.bytes ?? 0),
  };
}

function rateOf(sum: Traffic | undefined, seconds: number | undefined): Traffic | undefined {
  if (sum === undefined || seconds === undefined) return undefined;
  // Less than a second old: all of it was in this second.
  const divisor = Math.max(1, seconds);
  return { packets: sum.packets / divisor, bytes: sum.bytes / divisor };
}

/** With the rates since an earlier reading, where it has the connection. */
export function withRates(
  rows: readonly ConnectionRow[],
  before: readonly ConnectionRow[],
  seconds: number,
): readonly ConnectionRow[] {
  const earlier = new Map(before.map((row) => [row.key, row]));
  return rows.map((row) => {
    const now = bothWays(row);
    const previous = earlier.get(row.key);
    const then = previous && bothWays(previous);
    if (now === undefined || then === undefined || seconds <= 0) return row;
    const grown = (of: keyof Traffic): number => Math.max(0, now[of] - then[of]) / seconds;
    return { ...row, perSecond: { packets: grown('packets'), bytes: grown('bytes') } };
  });
}
