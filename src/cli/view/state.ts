// SPDX-License-Identifier: Apache-2.0
// The state of a row as shown in tables; JSON has KernelState.
import type { KernelState } from '../../observe/rows.ts';

export const STATE_TEXT: Readonly<Record<KernelState, string>> = {
  ok: 'in sync',
  missing: 'missing',
  stale: 'stale',
  'node-process': 'node process',
  withheld: 'not exposed',
  extra: 'extra',
  'not-served': 'not served',
  unknown: 'unknown',
};
