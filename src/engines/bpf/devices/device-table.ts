// SPDX-License-Identifier: Apache-2.0
// The entries of fl_device, in which the packet programs look up the device that they run on.
import { decodeU32, encodeU32 } from '../layout/layout.ts';
import { encodeDevice } from '../layout/packet-layout.ts';
import { type RowCodec, rowsOf } from '../layout/rows.ts';
import type { HashTable } from '../state/tables.ts';
import type { DeviceTable } from './device-follower.ts';

const ENTRIES: RowCodec<number, string> = {
  encodeKey: encodeU32,
  decodeKey: decodeU32,
  encodeValue: (json) => encodeDevice(JSON.parse(json)),
  // What an earlier agent has written is not looked at: each entry is written once.
  decodeValue: () => '',
};

export const deviceTable = (table: HashTable): DeviceTable => ({
  ...rowsOf(table, ENTRIES),
  refusal: (code) =>
    code === 'E2BIG'
      ? `the map ${table.name} is full (${table.capacity} devices): leave devices out with --devices`
      : `the map ${table.name} refused its entry (${code})`,
});
