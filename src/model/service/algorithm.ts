// SPDX-License-Identifier: Apache-2.0
// The balancing algorithm of a Service, from its annotation `fairlead.io/algorithm`.
import { type JsonRecord, shown } from '../../lib/json.ts';
import { annotationField, readAnnotation } from '../fields.ts';
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
export function readAlgorithm(object: JsonRecord, reject: Reject): Algorithm | undefined {
  const text = readAnnotation(object, ALGORITHM_ANNOTATION, reject)?.trim();
  if (text === undefined) return undefined;
  return (
    ALGORITHMS.find((algorithm) => algorithm === text) ??
    reject(
      annotationField(ALGORITHM_ANNOTATION),
      `must be one of ${ALGORITHMS.join(', ')}, not ${shown(text)}; the default of the node is used`,
    )
  );
}
