// SPDX-License-Identifier: Apache-2.0
// What a Service chooses by annotations with a choice of values.
import type { JsonRecord } from '../../lib/json.ts';
import { CHOICES } from '../annotations.ts';
import { readAnnotationChoice } from '../fields.ts';
import type { Reject } from '../rejection-collector.ts';
import type { Service } from '../types.ts';

const ROWS = Object.entries(CHOICES);

/** Without those that are absent or, with a rejection, unknown: the default of the node serves. */
export function readChoices(
  object: JsonRecord,
  reject: Reject,
): Pick<Service, keyof typeof CHOICES> {
  const read = ROWS.flatMap(([field, row]) => {
    const value = readAnnotationChoice(object, row, reject);
    return value === undefined ? [] : [[field, value]];
  });
  // A field of Service has the name of its row, and its type the values.
  return Object.fromEntries(read) as Pick<Service, keyof typeof CHOICES>;
}
