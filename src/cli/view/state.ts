// SPDX-License-Identifier: Apache-2.0
// How people read the state of a row; programs get KernelState.
import type { KernelState } from '../../observe/report.ts';

export const STATE_TEXT: Readonly<Record<KernelState, string>> = {
  ok: 'in sync',
  missing: 'missing',
  stale: 'stale',
  extra: 'extra',
  'not-served': 'not served',
  unknown: 'unknown',
};
