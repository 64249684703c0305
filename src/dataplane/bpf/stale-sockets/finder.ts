// SPDX-License-Identifier: Apache-2.0
// Finds stale sockets with the iterators of bpf/socket/find_stale.bpf.c: UDP ones of all network namespaces at once,
// TCP ones namespace by namespace, if there is any.
import { reasonOf } from '../../../errors.ts';
import { type BpfMap, type BpfProgram, readIterator } from '../../../sys/native.ts';
import { netnsPaths } from '../../../sys/netns-paths.ts';
import type { Loaded } from '../loader/load.ts';
import { inNetns } from './namespace.ts';
import { type Found, MOST_SOCKETS } from './pass.ts';
import { decodeStaleSockets, STALE_SOCKET_SIZE, type StaleSocket } from './socket.ts';

export const FIND_OBJECT = 'find_stale.bpf.o';

export interface FinderParts {
  readonly loaded: Pick<Loaded, 'maps' | 'programs'>;
  /** TCP sockets are stale too. */
  readonly resetsTcp: boolean;
}

const MOST_BYTES = MOST_SOCKETS * STALE_SOCKET_SIZE;

export async function findStaleSockets({ loaded, resetsTcp }: FinderParts): Promise<Found> {
  const { bytes, isWhole } = await readIterator(part(loaded.programs, 'fl_find_stored'), {
    map: part(loaded.maps, 'fl_sock'),
    maxBytes: MOST_BYTES,
  });
  const stored = decodeStaleSockets(bytes);
  if (!resetsTcp) {
    return { sockets: stored.filter(({ protocol }) => protocol === 'UDP'), isWhole, failures: [] };
  }
  const tcp = await findTcp(loaded);
  const sockets = [...stored, ...tcp.sockets];
  return {
    sockets: sockets.slice(0, MOST_SOCKETS),
    isWhole: isWhole && sockets.length <= MOST_SOCKETS,
    failures: tcp.failures,
  };
}

/** The records are searched first: most of the time none is stale, and no namespace is entered. */
async function findTcp(
  loaded: FinderParts['loaded'],
): Promise<Pick<Found, 'sockets' | 'failures'>> {
  const stale = await readIterator(part(loaded.programs, 'fl_find_tcp_records'), {
    map: part(loaded.maps, 'fl_tcp_sock'),
  });
  if (stale.bytes.length === 0) return { sockets: [], failures: [] };
  const program = part(loaded.programs, 'fl_find_tcp');
  const sockets: StaleSocket[] = [];
  const failures = new Set<string>();
  for (const path of (await netnsPaths()).values()) {
    try {
      const found = await inNetns(path, (netns) =>
        readIterator(program, { ...netns, maxBytes: MOST_BYTES }),
      );
      sockets.push(...decodeStaleSockets(found.bytes));
    } catch (error) {
      failures.add(reasonOf(error));
    }
  }
  return { sockets, failures: [...failures] };
}

export function part<T extends BpfMap | BpfProgram>(
  parts: ReadonlyMap<string, T>,
  name: string,
): T {
  const found = parts.get(name);
  if (found === undefined) throw new TypeError(`no object has ${name}`);
  return found;
}
