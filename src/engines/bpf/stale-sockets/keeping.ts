// SPDX-License-Identifier: Apache-2.0
// Which stale sockets go on with another backend, and need not be destroyed: those that are connected again, and those of pods
// whose datagrams the packet programs send to one. Only UDP sockets whose Service is still there.
import { narrowText, type StaleSocket } from './socket.ts';

/**
 * `refused`: its Service has no backend for it now; it is as it was. `failed`: it is connected to the former backend, but its
 * record is of the one that connect() failed to reach. `gone`: no process that the agent sees has it.
 */
export type ConnectOutcome = 'connected' | 'refused' | 'failed' | 'gone';

/** Outcomes in the order of the sockets, of which there are at most MAX_AT_ONCE. */
export type ConnectAgain = (sockets: readonly StaleSocket[]) => Promise<readonly ConnectOutcome[]>;

/** As many as the maps of bpf/socket/stale have room for. */
export const MAX_AT_ONCE = 8_192;
/** As many as fl_refused_sock has room for. */
export const MAX_NAMED = 8_192;

export async function inParts<T, Outcome>(
  all: readonly T[],
  work: (part: readonly T[]) => Promise<readonly Outcome[]>,
): Promise<readonly Outcome[]> {
  const outcomes: (readonly Outcome[])[] = [];
  for (let from = 0; from < all.length; from += MAX_AT_ONCE)
    outcomes.push(await work(all.slice(from, from + MAX_AT_ONCE)));
  return outcomes.flat();
}

export interface KeepParts {
  /** Whether the frontend that its program connected it to is served, with backends or without. */
  readonly hasService: (socket: StaleSocket) => boolean;
  /** undefined: descriptors of other processes cannot be had. */
  readonly connectAgain?: ConnectAgain | undefined;
  /** Looks where those are that are not connected again: which of them, of pods, programs on devices serve. */
  readonly canServe: (others: readonly StaleSocket[]) => Promise<(socket: StaleSocket) => boolean>;
}

export interface Kept {
  /** Connected to another backend. */
  readonly connected: readonly StaleSocket[];
  /** Their datagrams become requests. */
  readonly served: readonly StaleSocket[];
  /** Of the node: to be connected again when their Service has a backend. */
  readonly waiting: readonly StaleSocket[];
  /** To be destroyed. */
  readonly rest: readonly StaleSocket[];
}

export async function keep(
  { hasService, connectAgain, canServe }: KeepParts,
  stale: readonly StaleSocket[],
): Promise<Kept> {
  const isKept = (socket: StaleSocket): boolean => socket.protocol === 'UDP' && hasService(socket);
  const candidates = stale.filter(isKept);
  const outcomes = connectAgain === undefined ? [] : await inParts(candidates, connectAgain);
  const kept = {
    connected: [] as StaleSocket[],
    served: [] as StaleSocket[],
    waiting: [] as StaleSocket[],
    rest: stale.filter((socket) => !isKept(socket)),
  };
  const others = candidates.filter((_, index) => outcomes[index] !== 'connected');
  const mayServe = await canServe([...others, ...kept.rest]);
  for (const [index, socket] of candidates.entries()) {
    const outcome = outcomes[index];
    if (outcome === 'connected') kept.connected.push(socket);
    else if (outcome === 'failed') kept.rest.push({ ...socket, hasOtherRecord: true });
    else if (kept.served.length < MAX_NAMED && mayServe(socket)) kept.served.push(socket);
    else if (outcome === 'refused') kept.waiting.push(socket);
    else kept.rest.push(socket);
  }
  return kept;
}

/** A BlockList of Node. */
export interface Subnets {
  check(address: string, family: 'ipv4' | 'ipv6'): boolean;
}

export const isOnBridge = ({ backend, service }: StaleSocket, bridges: Subnets): boolean =>
  bridges.check(
    narrowText(backend.address, service.family),
    service.family === 'IPv4' ? 'ipv4' : 'ipv6',
  );
