// SPDX-License-Identifier: Apache-2.0
// When the endpoints of a Service changed, as the EndpointSlice controller recorded it.

import { isRecord, recordOrEmpty } from '../../lib/json.ts';
import { TRIGGER_TIME_ANNOTATION } from '../labels.ts';
import type { Family } from '../types.ts';

export interface TriggerTime {
  readonly family: Family;
  /** Milliseconds since the epoch. */
  readonly atMs: number;
}

/** @returns undefined for a slice without a readable annotation */
export function triggerTimeOf(slice: unknown): TriggerTime | undefined {
  if (!isRecord(slice)) return undefined;
  const annotations = recordOrEmpty(recordOrEmpty(slice['metadata'])['annotations']);
  const at = annotations[TRIGGER_TIME_ANNOTATION];
  const atMs = typeof at === 'string' ? Date.parse(at) : Number.NaN;
  if (Number.isNaN(atMs)) return undefined;
  return { family: slice['addressType'] === 'IPv6' ? 'IPv6' : 'IPv4', atMs };
}
