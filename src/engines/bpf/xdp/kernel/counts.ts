// SPDX-License-Identifier: Apache-2.0
// fl_xdp_count: frames of each watched device, of which every CPU has counters of its own.
import { type BpfMap, possibleCpus } from '../../../../sys/native.ts';
import { encodeU32 } from '../../layout/layout.ts';

export interface XdpCounts {
  /** From zero. */
  watch(ifindex: number): void;
  forget(ifindex: number): void;
  /** Zero if it is not watched. */
  read(ifindex: number): {
    readonly received: number;
    readonly sent: number;
    readonly lost: number;
  };
}

/** Of struct xdp_count. */
const WORDS = 3;
const SIZE = 8 * WORDS;

export function createCounts(map: BpfMap): XdpCounts {
  return {
    watch: (ifindex) => map.put(encodeU32(ifindex), new Uint8Array(SIZE * possibleCpus())),
    forget: (ifindex) => void map.delete(encodeU32(ifindex)),
    read(ifindex) {
      const bytes = map.get(encodeU32(ifindex)) ?? new Uint8Array();
      const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      const sums = [0, 0, 0];
      for (let at = 0; at + SIZE <= bytes.length; at += SIZE) {
        for (let word = 0; word < WORDS; word++) {
          sums[word] = (sums[word] ?? 0) + Number(view.getBigUint64(at + 8 * word, true));
        }
      }
      const [received = 0, sent = 0, lost = 0] = sums;
      return { received, sent, lost };
    },
  };
}
