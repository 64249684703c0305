// SPDX-License-Identifier: Apache-2.0
// How a Service's requests from outside are forwarded, from its annotation `fairlead.io/forwarding`.
import type { JsonRecord } from '../../lib/json.ts';
import { readAnnotationChoice } from '../fields.ts';
import { FORWARDING_ANNOTATION } from '../labels.ts';
import type { Reject } from '../rejection-collector.ts';
import type { Forwarding } from '../types.ts';

/** In the order in which documents list them; the first is the default. */
export const FORWARDINGS = [
  'snat',
  'dsr',
  'hybrid',
  'ipip',
] as const satisfies readonly Forwarding[];

/** Undefined if there is none, or, with a rejection, if it is unknown: the default of the node serves. */
export const readForwarding = (object: JsonRecord, reject: Reject): Forwarding | undefined =>
  readAnnotationChoice(object, FORWARDING_ANNOTATION, FORWARDINGS, reject);
