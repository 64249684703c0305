// SPDX-License-Identifier: Apache-2.0
// fl_refused_sock: the sockets whose next datagram the packet programs refuse, because their backend is gone and the
// agent may not destroy them.
import type { BpfMap } from '../../../sys/native.ts';
import { REFUSED_SOCKETS_OFFSET } from '../maps/layout.ts';
import type { ArrayTable } from '../maps/tables.ts';

/** All of them, by their cookies: others are left alone from now on. */
export type RefuseSockets = (cookies: readonly bigint[]) => void;

type SocketMap = Pick<BpfMap, 'readAll' | 'putBatch' | 'deleteBatch'>;

/** Programs look into the map only while the count says that something is there. */
export function refusedSockets(
  map: SocketMap,
  runtime: Pick<ArrayTable, 'view' | 'offset'>,
): RefuseSockets {
  return (cookies) => {
    const { keys, count } = map.readAll();
    const held = new BigUint64Array(keys.slice(0, 8 * count).buffer);
    const wanted = new Set(cookies);
    const vanished = held.filter((cookie) => !wanted.has(cookie));
    if (vanished.length > 0) map.deleteBatch(bytesOf(vanished));
    const known = new Set(held);
    const added = BigUint64Array.from(cookies.filter((cookie) => !known.has(cookie)));
    if (added.length > 0) {
      const { error } = map.putBatch(bytesOf(added), new Uint8Array(4 * added.length));
      if (error !== undefined) throw error;
    }
    runtime.view(0).setUint32(runtime.offset(0) + REFUSED_SOCKETS_OFFSET, wanted.size, true);
  };
}

const bytesOf = (cookies: BigUint64Array): Uint8Array =>
  new Uint8Array(cookies.buffer, cookies.byteOffset, cookies.byteLength);
