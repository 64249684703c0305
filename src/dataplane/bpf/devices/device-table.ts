// SPDX-License-Identifier: Apache-2.0
// The entries of fl_device, in which the packet programs look up the device that they run on.

import { FairleadError } from '../../../errors.ts';
import type { BpfMap } from '../../../sys/native.ts';
import { codeOf } from '../loader/errors.ts';
import { decodeU32, encodeU32 } from '../maps/layout.ts';
import { encodeDevice } from '../maps/packet-layout.ts';
import type { DeviceTable } from './follower.ts';

/** `put` throws MAP_FULL. */
export const deviceTable = (map: BpfMap): DeviceTable => ({
  put(device) {
    const value = encodeDevice(device);
    try {
      map.put(encodeU32(device.ifindex), value);
    } catch (error) {
      if (codeOf(error) !== 'E2BIG') throw error;
      const { name, maxEntries } = map.info;
      throw new FairleadError(
        'ATTACH_FAILED',
        `the map ${name} is full (${maxEntries} devices): leave devices out with --devices`,
      );
    }
  },
  delete: (ifindex) => void map.delete(encodeU32(ifindex)),
  keys() {
    const { keys, count } = map.readAll();
    return Array.from({ length: count }, (_, index) =>
      decodeU32(keys.subarray(4 * index, 4 * index + 4)),
    );
  },
});
