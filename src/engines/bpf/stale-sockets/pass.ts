// SPDX-License-Identifier: Apache-2.0
// One pass over the stale sockets of this node: find, leave out those whose backend still serves, give others another
// backend where that can be, and destroy the rest namespace by namespace. What cannot be destroyed is refused by the packet
// programs with its next datagram, or else reported with its reason, and affects no other socket.
import { reasonOf } from '../../../errors.ts';
import type { DestroyedSockets, LeftSockets } from '../../snapshot.ts';
import { inParts, type KeepParts, keep, MAX_NAMED } from './keeping.ts';
import type { StaleSocket } from './socket.ts';

/** Sockets of one pass: bounds its memory and the time until the next one. */
export const MAX_SOCKETS = 32_768;

export interface Found {
  readonly sockets: readonly StaleSocket[];
  /** False: there may be more, for the next pass. */
  readonly isWhole: boolean;
  /** Why some namespaces could not be searched. */
  readonly failures: readonly string[];
}

/** `gone`: closed, or connected to something else, since it was found. */
export type Outcome = 'destroyed' | 'gone' | { readonly error: string };

export interface PassParts {
  readonly find: () => Promise<Found>;
  readonly isServed: (socket: StaleSocket) => boolean;
  /** Paths of the network namespaces with these inode numbers, of those that can be found. */
  readonly netnsPaths: (inodes: ReadonlySet<number>) => Promise<ReadonlyMap<number, string>>;
  /** That of the agent's own namespace. */
  readonly ownPath: string;
  /** Outcomes in the order of the sockets, which are all of the namespace at `path`; at most MAX_AT_ONCE. */
  readonly destroyIn: (
    path: string,
    sockets: readonly StaleSocket[],
  ) => Promise<readonly Outcome[]>;
  readonly keeping: Pick<KeepParts, 'hasService' | 'connectAgain'>;
  /** Of sockets in these namespaces: whether datagrams to the former backend pass devices of the node that have programs. */
  readonly passesDevices: (paths: Paths) => Promise<(socket: StaleSocket) => boolean>;
  /** Told what the packet programs are to do with datagrams, by the cookies of all sockets; undefined: no programs on devices. */
  readonly name?: ((sockets: NamedSockets) => void) | undefined;
}

export interface NamedSockets {
  /** Datagrams become requests to the Service. */
  readonly served: readonly bigint[];
  readonly refused: readonly bigint[];
}

export interface PassReport {
  readonly destroyed: readonly DestroyedSockets[];
  /** How many have been connected to another backend. */
  readonly connected: number;
  /** Of how many the packet programs send the datagrams to another backend, or refuse them while there is none. */
  readonly served: number;
  /** How many are to be connected when their Service has a backend. */
  readonly waiting: number;
  /** How many are refused with their next datagram. */
  readonly refused: number;
  readonly left: readonly LeftSockets[];
  /** Further sockets can be destroyed by another pass at once. */
  readonly hasMore: boolean;
  /** Every network namespace that was to be searched, and was found, could be entered. */
  readonly isSearched: boolean;
}

/** Of a pass that has found none. */
export const NONE_STALE: PassReport = {
  destroyed: [],
  connected: 0,
  served: 0,
  waiting: 0,
  refused: 0,
  left: [],
  hasMore: false,
  isSearched: true,
};

/** Rejects if the stale sockets cannot be found. */
export async function runPass(parts: PassParts): Promise<PassReport> {
  const { sockets, isWhole, failures } = await parts.find();
  const stale = sockets.filter((socket) => !parts.isServed(socket));
  let paths: Paths = new Map();
  const canServe: KeepParts['canServe'] = async (others) => {
    if (others.length === 0) return () => false;
    paths = await parts.netnsPaths(new Set(others.map(({ netns }) => netns)));
    const passes = await parts.passesDevices(paths);
    return (socket) => canName(parts, paths.get(socket.netns), socket) && passes(socket);
  };
  const kept = await keep({ ...parts.keeping, canServe }, stale);
  const namespaces = byNamespace(kept.rest);
  const destroyed = new Map<string, DestroyedSockets>();
  const left = new Map<string, LeftSockets>(
    failures.map((reason) => [reason, { reason, count: 0 }]),
  );
  const refused: bigint[] = [];
  const hasRoom = (): boolean => kept.served.length + refused.length < MAX_NAMED;
  let isSearched = failures.length === 0;
  for (const [netns, group] of namespaces) {
    const path = paths.get(netns);
    const outcomes = await outcomesIn(parts, path, group).catch((error: unknown) => {
      isSearched = false;
      return failedFor(group, reasonOf(error));
    });
    for (const [index, socket] of group.entries()) {
      const outcome = outcomes[index] ?? 'gone';
      if (outcome === 'destroyed') addDestroyed(destroyed, socket);
      else if (outcome !== 'gone' && hasRoom() && canName(parts, path, socket))
        refused.push(socket.cookie);
      else if (outcome !== 'gone') addLeft(left, outcome.error);
    }
  }
  parts.name?.({ served: kept.served.map(({ cookie }) => cookie), refused });
  return {
    destroyed: [...destroyed.values()],
    connected: kept.connected.length,
    served: kept.served.length,
    waiting: kept.waiting.length,
    refused: refused.length,
    left: [...left.values()],
    hasMore: !isWhole && destroyed.size + kept.connected.length > 0,
    isSearched,
  };
}

/** Of network namespaces, by their inode. */
export type Paths = ReadonlyMap<number, string>;

/** What the node itself sends comes in by no device. */
const canName = (
  { name, ownPath }: PassParts,
  path: string | undefined,
  { protocol, cookie, hasOtherRecord = false }: StaleSocket,
): boolean =>
  name !== undefined && path !== ownPath && protocol === 'UDP' && cookie !== 0n && !hasOtherRecord;

function byNamespace(sockets: readonly StaleSocket[]): ReadonlyMap<number, StaleSocket[]> {
  const groups = new Map<number, StaleSocket[]>();
  for (const socket of sockets) {
    const group = groups.get(socket.netns);
    if (group === undefined) groups.set(socket.netns, [socket]);
    else group.push(socket);
  }
  return groups;
}

const NOT_FOUND =
  'their network namespace is neither mounted where the agent sees it (/run/netns) nor that of a process it sees';

/** Rejects if the namespace cannot be entered. */
async function outcomesIn(
  { destroyIn }: PassParts,
  path: string | undefined,
  sockets: readonly StaleSocket[],
): Promise<readonly Outcome[]> {
  if (path === undefined) return failedFor(sockets, NOT_FOUND);
  return inParts(sockets, (part) => destroyIn(path, part));
}

const failedFor = (sockets: readonly StaleSocket[], error: string): readonly Outcome[] =>
  sockets.map(() => ({ error }));

function addDestroyed(
  all: Map<string, DestroyedSockets>,
  { protocol, service }: StaleSocket,
): void {
  const { family } = service;
  const key = `${protocol} ${family}`;
  all.set(key, { protocol, family, count: (all.get(key)?.count ?? 0) + 1 });
}

function addLeft(all: Map<string, LeftSockets>, reason: string): void {
  all.set(reason, { reason, count: (all.get(reason)?.count ?? 0) + 1 });
}
