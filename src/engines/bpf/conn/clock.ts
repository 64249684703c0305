// SPDX-License-Identifier: Apache-2.0
// The clock of the packet programs, as they write it into records of connections, and in seconds.
import { TICK_SHIFT } from '../layout/conn-layout.ts';

export const tickOfNow = (): number =>
  Number((process.hrtime.bigint() >> TICK_SHIFT) & 0xffff_ffffn);

/** In seconds since boot. */
export const bootSeconds = (): number => Number(process.hrtime.bigint() / 1_000_000_000n);
