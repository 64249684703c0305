// SPDX-License-Identifier: Apache-2.0
// fl_refused_sock: stale sockets of pods, whose datagrams the packet programs send to another backend of the Service, or
// refuse.
import { TrackedTable } from '../../tracked-table.ts';
import { decodeU32, encodeU32, REFUSED_SOCKETS_OFFSET } from '../layout/layout.ts';
import { type RowCodec, type RowTable, rowsOf } from '../layout/rows.ts';
import type { NamedSockets } from '../stale-sockets/pass.ts';
import type { ArrayTable } from '../state/tables.ts';

/** All of them, by their cookies: others are left alone from now on. */
export type NameSockets = (sockets: NamedSockets) => void;

/** As enum stale_datagrams of bpf/packet/answer/stale.h. */
export const DATAGRAMS = { refused: 1, served: 2 } as const;

const COOKIES: RowCodec<bigint, number> = {
  encodeKey: (cookie) => new Uint8Array(BigUint64Array.of(cookie).buffer),
  decodeKey: (bytes) => new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true),
  encodeValue: encodeU32,
  decodeValue: decodeU32,
};

/** Programs look into the map only while the count says that something is there. */
export function namedSockets(
  table: RowTable,
  runtime: Pick<ArrayTable, 'view' | 'offset'>,
): NameSockets {
  const rows = new TrackedTable(rowsOf(table, COOKIES));
  return ({ served, refused }) => {
    const wanted = new Map<bigint, number>();
    for (const cookie of refused) wanted.set(cookie, DATAGRAMS.refused);
    for (const cookie of served) wanted.set(cookie, DATAGRAMS.served);
    rows.setAll(wanted);
    const { failed } = rows.audit();
    runtime.view(0).setUint32(runtime.offset(0) + REFUSED_SOCKETS_OFFSET, rows.size, true);
    const [first] = failed;
    if (first === undefined) return;
    throw new Error(
      `${table.name} refused ${failed.length} of ${wanted.size} sockets (${first.code})`,
    );
  };
}
