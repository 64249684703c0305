// SPDX-License-Identifier: Apache-2.0
// fl_refused_sock: stale sockets of pods, whose datagrams the packet programs send to another backend of the Service, or
// refuse.
import type { BpfMap } from '../../../sys/native.ts';
import { REFUSED_SOCKETS_OFFSET } from '../maps/layout.ts';
import type { ArrayTable } from '../maps/tables.ts';
import type { NamedSockets } from '../stale-sockets/pass.ts';

/** All of them, by their cookies: others are left alone from now on. */
export type NameSockets = (sockets: NamedSockets) => void;

type SocketMap = Pick<BpfMap, 'readAll' | 'putBatch' | 'deleteBatch'>;

/** As enum stale_datagrams of bpf/packet/answer/stale.h. */
export const DATAGRAMS = { refused: 1, served: 2 } as const;

/** Programs look into the map only while the count says that something is there. */
export function namedSockets(
  map: SocketMap,
  runtime: Pick<ArrayTable, 'view' | 'offset'>,
): NameSockets {
  return ({ served, refused }) => {
    const { keys, count } = map.readAll();
    const held = new BigUint64Array(keys.slice(0, 8 * count).buffer);
    const cookies = [...served, ...refused];
    const wanted = new Set(cookies);
    const vanished = held.filter((cookie) => !wanted.has(cookie));
    if (vanished.length > 0) map.deleteBatch(bytesOf(vanished));
    if (cookies.length > 0) {
      const values = new Uint32Array(cookies.length).fill(DATAGRAMS.refused);
      values.fill(DATAGRAMS.served, 0, served.length);
      const { error } = map.putBatch(
        bytesOf(BigUint64Array.from(cookies)),
        new Uint8Array(values.buffer),
      );
      if (error !== undefined) throw error;
    }
    runtime.view(0).setUint32(runtime.offset(0) + REFUSED_SOCKETS_OFFSET, wanted.size, true);
  };
}

const bytesOf = (cookies: BigUint64Array): Uint8Array =>
  new Uint8Array(cookies.buffer, cookies.byteOffset, cookies.byteLength);
