// SPDX-License-Identifier: Apache-2.0
// The clock that the packet programs write into records of connections.
import { TICK_SHIFT } from '../maps/conn-layout.ts';

export const tickOfNow = (): number =>
  Number((process.hrtime.bigint() >> TICK_SHIFT) & 0xffff_ffffn);
