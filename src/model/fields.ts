// SPDX-License-Identifier: Apache-2.0
// Readers of single fields: the value if it is right, `undefined` and a rejection if it is not.
// Limits are those of Kubernetes' own validation (k8s.io/kubernetes/pkg/apis/core/validation).
import { flatText } from '../lib/compact.ts';
import { canonicalAddress, validateHostAddress } from '../lib/ip.ts';
import { isAbsent, isRecord, type JsonRecord, shown } from '../lib/json.ts';
import { compareText, validateLabel } from '../lib/names.ts';
import type { Choice } from './annotations.ts';
import type { Reject } from './rejection-collector.ts';
import type { Protocol } from './types.ts';

const NO_ITEMS: readonly unknown[] = Object.freeze([]);

/** A list; absent = empty, anything else is rejected and counts as empty. */
export function readList(value: unknown, field: string, reject: Reject): readonly unknown[] {
  if (isAbsent(value)) return NO_ITEMS;
  if (Array.isArray(value)) return value;
  reject(field, `must be a list, not ${shown(value)}`);
  return NO_ITEMS;
}

/** A section; absent = undefined, anything but an object is rejected. */
export function readRecord(value: unknown, field: string, reject: Reject): JsonRecord | undefined {
  if (isAbsent(value)) return undefined;
  return isRecord(value) ? value : reject(field, `must be an object, not ${shown(value)}`);
}

export function readString(value: unknown, field: string, reject: Reject): string | undefined {
  if (isAbsent(value)) return undefined;
  return typeof value === 'string' ? value : reject(field, `must be text, not ${shown(value)}`);
}

/** A port number 1..65535; absence is the caller's affair. */
export function readPort(value: unknown, field: string, reject: Reject): number | undefined {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= 65535) {
    return value;
  }
  return reject(field, `must be a port number from 1 to 65535, not ${shown(value)}`);
}

/** TCP, UDP or SCTP; absent = TCP, as the API server would fill in. */
export function readProtocol(value: unknown, field: string, reject: Reject): Protocol | undefined {
  if (isAbsent(value) || value === 'TCP') return 'TCP';
  if (value === 'UDP' || value === 'SCTP') return value;
  return reject(field, `must be TCP, UDP or SCTP, not ${shown(value)}`);
}

/** A port's name; absent = ''. */
export function readPortName(value: unknown, field: string, reject: Reject): string | undefined {
  if (isAbsent(value) || value === '') return '';
  if (typeof value !== 'string') return reject(field, `must be text, not ${shown(value)}`);
  const problem = validateLabel(value);
  return problem === undefined ? value : reject(field, `${shown(value)} ${problem}`);
}

/** A canonical address that one machine can own (Kubernetes: ValidateNonSpecialIP). */
export function readAddress(value: unknown, field: string, reject: Reject): string | undefined {
  const address = typeof value === 'string' ? canonicalAddress(value) : undefined;
  if (address === undefined) return reject(field, `must be an IP address, not ${shown(value)}`);
  const special = validateHostAddress(address);
  return special === undefined ? address : reject(field, `${address} is ${special}`);
}

/** One of the choices; absent = the first of them; anything else is rejected and counts as the first. */
export function readChoice<T extends string>(
  value: unknown,
  choices: readonly [T, ...T[]],
  field: string,
  reject: Reject,
): T {
  if (isAbsent(value)) return choices[0];
  const found = choices.find((choice) => choice === value);
  if (found === undefined) reject(field, `must be ${choices.join(' or ')}, not ${shown(value)}`);
  return found ?? choices[0];
}

/** Keys of metadata.labels, or of an object without labels. */
export function readLabels(object: JsonRecord, reject: Reject): JsonRecord {
  const metadata = readRecord(object['metadata'], 'metadata', reject);
  return readRecord(metadata?.['labels'], 'metadata.labels', reject) ?? {};
}

/** The annotation's text; absent = undefined, anything but text is rejected. */
export function readAnnotation(
  object: JsonRecord,
  name: string,
  reject: Reject,
): string | undefined {
  // What is wrong with the metadata itself is said where labels are read.
  const metadata = readRecord(object['metadata'], 'metadata', () => undefined);
  const annotations = readRecord(metadata?.['annotations'], 'metadata.annotations', reject);
  if (annotations === undefined || !Object.hasOwn(annotations, name)) return undefined;
  return readString(annotations[name], annotationField(name), reject);
}

/** One of the choices; absent = undefined, anything else is rejected. */
export function readAnnotationChoice<T extends string>(
  object: JsonRecord,
  { name, values, instead }: Choice<T>,
  reject: Reject,
): T | undefined {
  const text = readAnnotation(object, name, reject)?.trim();
  if (text === undefined) return undefined;
  return (
    values.find((value) => value === text) ??
    reject(
      annotationField(name),
      `must be one of ${values.join(', ')}, not ${shown(text)}`,
      instead,
    )
  );
}

export const annotationField = (name: string): string => `metadata.annotations["${name}"]`;

/** `app=web,tier=front`, sorted: one text weighs a fraction of a record. Values that are no text do not count. */
export function labelText(labels: JsonRecord): string {
  const pairs = Object.entries(labels).flatMap(([key, value]) =>
    typeof value === 'string' ? [`${key}=${value}`] : [],
  );
  return pairs.length === 0 ? '' : flatText(pairs.sort(compareText).join());
}
