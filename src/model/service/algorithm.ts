// SPDX-License-Identifier: Apache-2.0
// The balancing algorithm of a Service, from its annotation `fairlead.io/algorithm`, and the size of its Maglev tables,
// from `fairlead.io/table-size`.
import { type JsonRecord, shown } from '../../lib/json.ts';
import { annotationField, readAnnotation, readAnnotationChoice } from '../fields.ts';
import { ALGORITHM_ANNOTATION, TABLE_SIZE_ANNOTATION } from '../labels.ts';
import type { Reject } from '../rejection-collector.ts';
import type { Algorithm, Service } from '../types.ts';
import { isPrime, LEAST_ENTRIES, MOST_ENTRIES } from './table-size.ts';

/** In the order in which documents list them. */
export const ALGORITHMS = [
  'random',
  'weighted-random',
  'round-robin',
  'weighted-round-robin',
  'least-connections',
  'weighted-least-connections',
  'source-hash',
  'maglev',
] as const satisfies readonly Algorithm[];

/** Undefined if there is none, or, with a rejection, if it is unknown: the default of the node serves. */
const readAlgorithm = (object: JsonRecord, reject: Reject): Algorithm | undefined =>
  readAnnotationChoice(object, ALGORITHM_ANNOTATION, ALGORITHMS, reject);

/** Undefined if there is none, or, with a rejection, if it is no size: tables are as large as they need to be. */
function readTableEntries(object: JsonRecord, reject: Reject): number | undefined {
  const text = readAnnotation(object, TABLE_SIZE_ANNOTATION, reject)?.trim();
  if (text === undefined) return undefined;
  const refuse = (reason: string): undefined =>
    reject(annotationField(TABLE_SIZE_ANNOTATION), reason, 'the default is used');
  if (!/^\d{1,9}$/.test(text)) return refuse(`must be a number, not ${shown(text)}`);
  const entries = Number(text);
  if (entries < LEAST_ENTRIES || entries > MOST_ENTRIES)
    return refuse(`must be from ${LEAST_ENTRIES} to ${MOST_ENTRIES}, not ${text}`);
  return isPrime(entries) ? entries : refuse(`must be a prime, and ${text} is none`);
}

/** What the annotations say of how backends are chosen. */
export function readBalancing(
  object: JsonRecord,
  reject: Reject,
): Pick<Service, 'algorithm' | 'tableEntries'> {
  const algorithm = readAlgorithm(object, reject);
  const tableEntries = readTableEntries(object, reject);
  return {
    ...(algorithm !== undefined && { algorithm }),
    ...(tableEntries !== undefined && { tableEntries }),
  };
}
