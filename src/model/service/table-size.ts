// SPDX-License-Identifier: Apache-2.0
// Which sizes a lookup table may have: primes, because a backend's preferences must visit every entry; and the annotation
// `fairlead.io/table-size`, which asks for one.
import { type JsonRecord, shown } from '../../lib/json.ts';
import { ANNOTATIONS } from '../annotations.ts';
import { annotationField, readAnnotation } from '../fields.ts';
import type { Reject } from '../rejection-collector.ts';
import type { Service } from '../types.ts';

/** What a Service may ask for at least. */
export const LEAST_ENTRIES = 251;
/** Half a MiB in the kernel. */
export const MOST_ENTRIES = 131_071;

export function isPrime(number: number): boolean {
  if (!Number.isInteger(number) || number < 2) return false;
  for (let divisor = 2; divisor * divisor <= number; divisor += 1) {
    if (number % divisor === 0) return false;
  }
  return true;
}

/** Nothing if there is none, or, with a rejection, if it is no size: tables are as large as they need to be. */
export function readTableEntries(
  object: JsonRecord,
  reject: Reject,
): Pick<Service, 'tableEntries'> {
  const { name, instead } = ANNOTATIONS.tableEntries;
  const text = readAnnotation(object, name, reject)?.trim();
  if (text === undefined) return {};
  const refuse = (reason: string): Pick<Service, 'tableEntries'> => {
    reject(annotationField(name), reason, instead);
    return {};
  };
  if (!/^\d{1,9}$/.test(text)) return refuse(`must be a number, not ${shown(text)}`);
  const entries = Number(text);
  if (entries < LEAST_ENTRIES || entries > MOST_ENTRIES)
    return refuse(`must be from ${LEAST_ENTRIES} to ${MOST_ENTRIES}, not ${text}`);
  return isPrime(entries)
    ? { tableEntries: entries }
    : refuse(`must be a prime, and ${text} is none`);
}
