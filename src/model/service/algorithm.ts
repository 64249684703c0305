// SPDX-License-Identifier: Apache-2.0
// The balancing algorithm of a Service, from its annotation `fairlead.io/algorithm`.
import type { JsonRecord } from '../../lib/json.ts';
import { readAnnotationChoice } from '../fields.ts';
import { ALGORITHM_ANNOTATION } from '../labels.ts';
import type { Reject } from '../rejection-collector.ts';
import type { Algorithm } from '../types.ts';

/** In the order in which documents list them. */
export const ALGORITHMS = [
  'random',
  'weighted-random',
  'round-robin',
  'weighted-round-robin',
  'source-hash',
] as const satisfies readonly Algorithm[];

/** Undefined if there is none, or, with a rejection, if it is unknown: the default of the node serves. */
export const readAlgorithm = (object: JsonRecord, reject: Reject): Algorithm | undefined =>
  readAnnotationChoice(object, ALGORITHM_ANNOTATION, ALGORITHMS, reject);
