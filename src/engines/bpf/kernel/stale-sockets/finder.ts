// SPDX-License-Identifier: Apache-2.0
// Finds stale sockets by iterators: by their records, those of bpf/socket/stale/find_stale.bpf.c, UDP ones of all network namespaces
// at once, TCP ones namespace by namespace, if there is any; or, where the kernel refuses iterators over maps, by the
// sockets of each namespace, those of bpf/socket/stale/walk_stale.bpf.c.
import { reasonOf } from '../../../../errors.ts';
import { type BpfMap, type BpfProgram, readIterator } from '../../../../sys/native.ts';
import { netnsPaths, OWN_NETNS } from '../../../../sys/netns-paths.ts';
import { codeOf } from '../../errors.ts';
import { type Found, MAX_SOCKETS } from '../../stale-sockets/pass.ts';
import {
  decodeStaleSockets,
  STALE_SOCKET_SIZE,
  type StaleSocket,
} from '../../stale-sockets/socket.ts';
import type { Loaded } from '../loader/load.ts';
import { inNetns } from './namespace.ts';

export const FIND_OBJECT = 'find_stale.bpf.o';
export const WALK_OBJECT = 'walk_stale.bpf.o';

export interface FindOptions {
  /** TCP sockets are stale too. */
  readonly resetsTcp: boolean;
}

/** Rejects if none can be found. */
export type FindStale = (options: FindOptions) => Promise<Found>;

const MAX_BYTES = MAX_SOCKETS * STALE_SOCKET_SIZE;

export const byRecords =
  (loaded: Pick<Loaded, 'maps' | 'programs'>): FindStale =>
  async ({ resetsTcp }) => {
    const { bytes, isWhole } = await readIterator(part(loaded.programs, 'fl_find_stored'), {
      map: part(loaded.maps, 'fl_sock'),
      maxBytes: MAX_BYTES,
    });
    const stored = decodeStaleSockets(bytes);
    if (!resetsTcp) {
      const sockets = stored.filter(({ protocol }) => protocol === 'UDP');
      return upToMost({ sockets, isWhole, failures: [] });
    }
    const stale = await readIterator(part(loaded.programs, 'fl_find_tcp_records'), {
      map: part(loaded.maps, 'fl_tcp_sock'),
    });
    // Most of the time none is stale, and no namespace is entered.
    const paths = stale.bytes.length === 0 ? [] : (await netnsPaths()).values();
    const tcp = await searchEach(paths, [part(loaded.programs, 'fl_find_tcp')]);
    return upToMost({
      ...tcp,
      sockets: [...stored, ...tcp.sockets],
      isWhole: isWhole && tcp.isWhole,
    });
  };

/** Of the agent's own namespace alone if it may enter no other. */
export function byWalking({ programs }: Pick<Loaded, 'programs'>, canEnter: boolean): FindStale {
  const walkers = [part(programs, 'fl_walk_udp'), part(programs, 'fl_walk_tcp')];
  return withCooldown(async ({ resetsTcp }) => {
    const paths = canEnter ? (await netnsPaths()).values() : [OWN_NETNS];
    return upToMost(await searchEach(paths, resetsTcp ? walkers : walkers.slice(0, 1)));
  });
}

/** What the iterators find in each of the namespaces. One that cannot be searched does not affect the others. */
export async function searchEach(
  paths: Iterable<string>,
  iterators: readonly BpfProgram[],
): Promise<Found> {
  const sockets: StaleSocket[] = [];
  const failures = new Set<string>();
  let isWhole = true;
  for (const path of paths) {
    try {
      await inNetns(path, async (netns) => {
        for (const iterator of iterators) {
          const found = await readIterator(iterator, { ...netns, maxBytes: MAX_BYTES });
          sockets.push(...decodeStaleSockets(found.bytes));
          isWhole &&= found.isWhole;
        }
      });
    } catch (error) {
      if (!isGone(error)) failures.add(reasonOf(error));
    }
  }
  return { sockets, isWhole, failures: [...failures] };
}

/** The namespace has ended since it was listed: its file is gone (open), or no longer that of a namespace (setns). */
function isGone(error: unknown): boolean {
  const isFromSetns = error instanceof Error && 'op' in error && error.op === 'setns';
  return isFromSetns ? codeOf(error) === 'EINVAL' : ['ENOENT', 'ESRCH'].includes(codeOf(error));
}

/** What an iterator writes is cut only when more than that has been read. */
const upToMost = ({ sockets, isWhole, failures }: Found): Found => ({
  sockets: sockets.slice(0, MAX_SOCKETS),
  isWhole: isWhole && sockets.length <= MAX_SOCKETS,
  failures,
});

export function part<T extends BpfMap | BpfProgram>(
  parts: ReadonlyMap<string, T>,
  name: string,
): T {
  const found = parts.get(name);
  if (found === undefined) throw new TypeError(`no object has ${name}`);
  return found;
}

// A search that took time is followed by a cooldown. However often endpoints go, searches take a fifth of a core, or a
// third if one takes half a second.
const COOLDOWN_FACTOR = 4;
const MAX_COOLDOWN_MS = 1_000;

/** Each call waits until the cooldown of the one before has ended. Not for calls at the same time. */
export function withCooldown<Options, Result>(
  search: (options: Options) => Promise<Result>,
): (options: Options) => Promise<Result> {
  let coolsUntilMs = 0;
  return async (options) => {
    const cooldownMs = coolsUntilMs - performance.now();
    if (cooldownMs > 0) await new Promise((resolve) => setTimeout(resolve, cooldownMs).unref());
    const startedMs = performance.now();
    try {
      return await search(options);
    } finally {
      const endedMs = performance.now();
      coolsUntilMs = endedMs + Math.min(COOLDOWN_FACTOR * (endedMs - startedMs), MAX_COOLDOWN_MS);
    }
  };
}
