// SPDX-License-Identifier: Apache-2.0
// fl_traffic: packets and bytes by frontend of connections that have ended, which the programs add.
import type { Traffic } from '../../../snapshot.ts';
import type { ArrayTable } from '../../state/tables.ts';

/** Of clients, and of backends. */
export interface BothWays {
  readonly toBackend: Traffic;
  readonly toClient: Traffic;
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
