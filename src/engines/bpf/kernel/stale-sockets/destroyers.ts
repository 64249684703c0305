// SPDX-License-Identifier: Apache-2.0
// The two ways to destroy sockets of a network namespace: bpf_sock_destroy() in an iterator over its sockets (Linux
// 6.5), and SOCK_DESTROY of sock_diag(7), one request for each (CONFIG_INET_DIAG_DESTROY).
import { type BpfMap, destroySockets, readIterator } from '../../../../sys/native.ts';
import type { Outcome, PassParts } from '../../stale-sockets/pass.ts';
import { encodeDestroyRequests, type StaleSocket } from '../../stale-sockets/socket.ts';
import type { Loaded } from '../loader/load.ts';
import { part } from './finder.ts';
import { inNetns } from './namespace.ts';

export const DESTROY_OBJECT = 'destroy.bpf.o';

/** CHOSEN_WITH_OTHER_RECORD of bpf/socket/stale/destroy.bpf.c. */
const WITH_OTHER_RECORD = 2;
/** OUTCOME_DESTROYED. A value that is as it was written, too: the iterator did not meet the socket. */
const DESTROYED = 1;

export type DestroyIn = PassParts['destroyIn'];

/** The iterator destroys a chosen socket only if it is still stale, or if its record is still of another backend. */
export function bySockDestroy({ maps, programs }: Pick<Loaded, 'maps' | 'programs'>): DestroyIn {
  const chosen = part(maps, 'fl_chosen');
  const walkers = {
    UDP: part(programs, 'fl_destroy_udp'),
    TCP: part(programs, 'fl_destroy_tcp'),
  } as const;
  return async (path, sockets) => {
    const keys = cookieKeys(sockets);
    try {
      choose(chosen, keys, sockets);
      await inNetns(path, async (netns) => {
        for (const protocol of ['UDP', 'TCP'] as const) {
          if (sockets.some((socket) => socket.protocol === protocol)) {
            await readIterator(walkers[protocol], netns);
          }
        }
      });
      const codes = readCodes(chosen);
      return sockets.map(({ cookie }) => outcomeOf(codes.get(cookie) ?? 0));
    } finally {
      chosen.deleteBatch(keys);
    }
  };
}

const cookieKeys = (sockets: readonly StaleSocket[]): Uint8Array =>
  new Uint8Array(new BigUint64Array(sockets.map(({ cookie }) => cookie)).buffer);

function choose(chosen: BpfMap, keys: Uint8Array, sockets: readonly StaleSocket[]): void {
  const how = sockets.map(({ hasOtherRecord }) => (hasOtherRecord ? WITH_OTHER_RECORD : 0));
  const { error } = chosen.putBatch(keys, new Uint8Array(Int32Array.from(how).buffer));
  if (error !== undefined) throw error;
}

/** By cookie. */
function readCodes(chosen: BpfMap): ReadonlyMap<bigint, number> {
  const { keys, values, count } = chosen.readAll();
  const cookies = new BigUint64Array(keys.slice().buffer);
  const codes = new Int32Array(values.slice().buffer);
  return new Map(Array.from({ length: count }, (_, at) => [cookies[at] ?? 0n, codes[at] ?? 0]));
}

function outcomeOf(code: number): Outcome {
  if (code === DESTROYED) return 'destroyed';
  return code >= 0 ? 'gone' : { error: `bpf_sock_destroy: errno ${-code}` };
}

/** A socket with other addresses or another cookie is not the one that was found: ENOENT. */
export const byNetlink: DestroyIn = async (path, sockets) => {
  const errors = await inNetns(path, (netns) =>
    destroySockets(encodeDestroyRequests(sockets), netns),
  );
  return errors.map((error): Outcome => {
    if (error === undefined) return 'destroyed';
    return error === 'ENOENT' ? 'gone' : { error: `SOCK_DESTROY: ${error}` };
  });
};
