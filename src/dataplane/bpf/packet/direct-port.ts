// SPDX-License-Identifier: Apache-2.0
// The UDP port at which this node takes requests for direct return, in fl_runtime. It is open from the first plan on in which
// somebody wants them, and stays open: those of flows that exist come after the last Service has changed its mind.
import { GENEVE_PORT } from '../../../model/node/direct-return.ts';
import type { Plan } from '../../../plan/types.ts';
import { DIRECT_PORT_OFFSET } from '../maps/layout.ts';
import type { ArrayTable } from '../maps/tables.ts';

export function openDirectPort(runtime: ArrayTable, plan: Pick<Plan, 'wantsDirectReturn'>): void {
  if (plan.wantsDirectReturn !== true) return;
  runtime.view(0).setUint16(runtime.offset(0) + DIRECT_PORT_OFFSET, GENEVE_PORT, true);
}

/** Without packet programs nobody takes them. */
export function closeDirectPort(runtime: ArrayTable): void {
  runtime.view(0).setUint16(runtime.offset(0) + DIRECT_PORT_OFFSET, 0, true);
}
