// SPDX-License-Identifier: Apache-2.0
// fl_traffic: packets and bytes by frontend of flows that have ended. Whoever deletes a flow adds its counters here.
import type { Traffic } from '../../../snapshot.ts';
import type { ArrayTable } from '../../maps/tables.ts';

/** Of clients, and of backends. */
export interface BothWays {
  readonly toBackend: Traffic;
  readonly toClient: Traffic;
}

/** In the order of struct traffic. */
const wordsOf = ({ toBackend, toClient }: BothWays): readonly number[] => [
  toBackend.packets,
  toBackend.bytes,
  toClient.packets,
  toClient.bytes,
];

/** Atomically, word by word: programs and other processes add to it as well. */
export function addTraffic(table: ArrayTable, frontendId: number, traffic: BothWays): void {
  if (frontendId >= table.length) return;
  const view = table.view(frontendId);
  const at = view.byteOffset + table.offset(frontendId);
  const words = new BigUint64Array(view.buffer, at, 4);
  for (const [word, count] of wordsOf(traffic).entries()) Atomics.add(words, word, BigInt(count));
}

/** Exact up to 2^53. */
export function readTraffic(table: ArrayTable, frontendId: number): BothWays {
  const view = table.view(frontendId);
  const at = table.offset(frontendId);
  const word = (index: number): number => Number(view.getBigUint64(at + 8 * index, true));
  return {
    toBackend: { packets: word(0), bytes: word(1) },
    toClient: { packets: word(2), bytes: word(3) },
  };
}
